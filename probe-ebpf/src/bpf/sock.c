/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sends and receives of the traced threads on stream sockets: how a multiplexer's server and
 * its clients hand a keystroke on. Loaded only when echoes are followed. The better way:
 * the functions themselves, which io_uring comes through too. The other one is in tty.c,
 * which has the system calls.
 */
#include "sock.h"

static __always_inline void sock_begins(struct thread *t, struct sock *sk, __u32 op)
{
	__u64 conn = conn_of(sk, &t->sock_peer);

	if (!conn)
		return;
	t->sock_conn = conn;
	t->sock_op = op;
	t->sock_start = bpf_ktime_get_ns();
}

static __always_inline void sock_ends(struct thread *t, __s64 ret)
{
	struct ev_sock ev = {
		.conn = t->sock_conn, .op = t->sock_op, .peer_tgid = t->sock_peer, .ret = ret,
	};
	__u64 now = bpf_ktime_get_ns();

	ev.duration_ns = elapsed(t->sock_start, now);
	t->sock_start = 0;
	header(&ev.h, EV_SOCK, now);
	emit(&ev, sizeof(ev), LOSS_RING_FULL);
}

static __always_inline int sock_call_begins(struct sock *sk, __u32 op)
{
	struct thread *t = following() ? thread_of(bpf_get_current_task_btf()) : NULL;

	if (t && sk)
		sock_begins(t, sk, op);
	return 0;
}

/* The result's place depends on how many arguments the function has, which changes. */
static __always_inline int sock_call_ends(void *ctx)
{
	struct thread *t = following() ? thread_of(bpf_get_current_task_btf()) : NULL;
	__u64 ret = 0;

	if (!t || !t->sock_start)
		return 0;
	bpf_get_func_ret(ctx, &ret);
	sock_ends(t, (int)ret);
	return 0;
}

/* What the function is given first: a struct socket, or its sock. */
#define SOCK_CALL(function, given, sk_of, op)                       \
	SEC("fentry/" #function)                                    \
	int BPF_PROG(function##_begins, struct given *given)        \
	{                                                           \
		return sock_call_begins(sk_of, op);                 \
	}                                                           \
	SEC("fexit/" #function)                                     \
	int BPF_PROG(function##_ends, struct given *given)          \
	{                                                           \
		return sock_call_ends(ctx);                         \
	}

SOCK_CALL(unix_stream_sendmsg, socket, socket->sk, IO_WRITE)
SOCK_CALL(unix_stream_recvmsg, socket, socket->sk, IO_READ)
SOCK_CALL(unix_seqpacket_sendmsg, socket, socket->sk, IO_WRITE)
SOCK_CALL(unix_seqpacket_recvmsg, socket, socket->sk, IO_READ)
SOCK_CALL(tcp_sendmsg, sock, sock, IO_WRITE)
SOCK_CALL(tcp_recvmsg, sock, sock, IO_READ)

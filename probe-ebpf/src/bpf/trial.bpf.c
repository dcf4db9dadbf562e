/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One small program for each thing that a kernel can refuse: what a kernel allows
 * is found by asking it, never by its version.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} storage SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(try_tp_btf, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	return prev_state & 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(try_storage, struct task_struct *p)
{
	bpf_task_storage_get(&storage, p, NULL, 0);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(try_ring, struct task_struct *p)
{
	bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	return 0;
}

static long once(__u32 i, void *ctx)
{
	return 1;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(try_loop, struct task_struct *p)
{
	bpf_loop(1, once, NULL, 0);
	return 0;
}

/* Where phux-trace itself stands: the depth and the address of its pid namespace. */
__u32 self_level;
__u64 self_ns;

SEC("iter/task")
int try_iter(struct bpf_iter__task *ctx)
{
	struct pid *pid = BPF_CORE_READ(bpf_get_current_task_btf(), thread_pid);
	struct upid upid = {};

	self_level = BPF_CORE_READ(pid, level);
	bpf_core_read(&upid, sizeof(upid), &pid->numbers[self_level]);
	self_ns = (__u64)upid.ns;
	return 0;
}

SEC("fentry/tty_read")
int BPF_PROG(try_fentry, struct kiocb *iocb)
{
	return 0;
}

SEC("fentry/unix_stream_sendmsg")
int BPF_PROG(try_fentry_unix, struct socket *socket)
{
	return 0;
}

SEC("fentry/tcp_sendmsg")
int BPF_PROG(try_fentry_tcp, struct sock *sock)
{
	return 0;
}

SEC("uprobe")
int try_uprobe(void *ctx)
{
	/* What USDT needs besides: telling the probes apart. */
	return bpf_get_attach_cookie(ctx) & 0;
}

/* The newer way, of which the kernel asks CAP_PERFMON and not CAP_SYS_ADMIN. */
SEC("uprobe.multi")
int try_uprobe_multi(void *ctx)
{
	return bpf_get_attach_cookie(ctx) & 0;
}

extern const void flush_to_ldisc __ksym;

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(try_flush, struct work_struct *work)
{
	return (__u64)&flush_to_ldisc & 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

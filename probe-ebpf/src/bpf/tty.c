/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads and writes on the traced PTYs, and the flush work that carries bytes from one side to the other. */
#include "offcpu.h"
#include "tty.h"
#include "syscall.h"

/* Syscall numbers of this architecture. */
#include <asm/unistd.h>

static __always_inline struct io_stats *io_stats_of(struct io_key *key)
{
	struct io_stats *io = bpf_map_lookup_elem(&pty_io, key);

	if (io)
		return io;
	bpf_map_update_elem(&pty_io, key, &no_io, BPF_NOEXIST);
	io = bpf_map_lookup_elem(&pty_io, key);
	if (!io)
		lose(LOSS_PTY_TABLE);
	return io;
}

/* A PTY becomes one of the target's when the target, what it started, or a client of it uses it. */
static __always_inline bool makes_ptys_ours(struct thread *t)
{
	return t && t->s.relation != REL_NONE && t->s.relation != REL_PEER;
}

static __always_inline void io_begins(struct thread *t, struct pty_id *pty, __u32 side, __u32 op)
{
	t->io.pty = *pty;
	t->io.side = side;
	t->io.op = op;
	t->io_start = bpf_ktime_get_ns();
}

/* Who used this end. Written by several CPUs at once at worst, and then each of them did. */
static __always_inline void used_by(struct io_stats *io, struct thread *t)
{
	struct task_struct *me;

	if (io->by == t->s.tgid)
		return;
	me = bpf_get_current_task_btf();
	bpf_probe_read_kernel_str(io->comm, sizeof(io->comm), me->group_leader->comm);
	io->by = t->s.tgid;
}

static __always_inline void io_ends(struct thread *t, long ret)
{
	__u64 now = bpf_ktime_get_ns(), duration = elapsed(t->io_start, now);
	struct io_stats *io = io_stats_of(&t->io);

	t->io_start = 0;
	if (!io)
		return;
	used_by(io, t);
	if (ret > 0) {
		hist_add_shared(&io->size, ret);
		hist_add_shared(&io->duration, duration);
	} else {
		__sync_fetch_and_add(&io->empty, 1);
	}
	if (tell_events()) {
		struct ev_io ev = {
			.pty = t->io.pty, .side = t->io.side, .op = t->io.op,
			.ret = ret, .duration_ns = duration,
		};

		header(&ev.h, EV_IO, now);
		emit(&ev, sizeof(ev), LOSS_RING_FULL);
	}
}

/*
 * The better way: tty_read() and tty_write() themselves. Their result is the
 * caller's; n_tty_read()'s would be a piece of at most 64 bytes.
 */
static __always_inline int tty_call_begins(struct kiocb *iocb, __u32 op)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct thread *t = thread_of(me);
	struct tty_struct *tty = tty_of_file(iocb->ki_filp);
	struct port *port;
	__u64 addr;

	port = !stopped && tty ? port_of(tty, makes_ptys_ours(t), &addr) : NULL;
	if (!port)
		return 0;
	if (!t && visible_tgid(me) != self_tgid) /* somebody opened one of our PTYs after we began */
		t = trace_thread(me, REL_PEER);
	if (t)
		io_begins(t, &port->pty, port->side, op);
	return 0;
}

static __always_inline int tty_call_ends(long ret)
{
	struct thread *t = thread_of(bpf_get_current_task_btf());

	if (t && t->io_start)
		io_ends(t, ret);
	return 0;
}

SEC("fentry/tty_read")
int BPF_PROG(tty_read_begins, struct kiocb *iocb)
{
	return tty_call_begins(iocb, IO_READ);
}

SEC("fentry/tty_write")
int BPF_PROG(tty_write_begins, struct kiocb *iocb)
{
	return tty_call_begins(iocb, IO_WRITE);
}

SEC("fexit/tty_read")
int BPF_PROG(tty_read_ends, struct kiocb *iocb, struct iov_iter *to, long ret)
{
	return tty_call_ends(ret);
}

SEC("fexit/tty_write")
int BPF_PROG(tty_write_ends, struct kiocb *iocb, struct iov_iter *from, long ret)
{
	return tty_call_ends(ret);
}

/*
 * The way that works everywhere: the system calls of traced threads, and a walk from
 * fd to tty or socket. Only the plain calls: nobody uses a terminal by preadv2() or pwritev2().
 */
const volatile bool tty_by_call = true;
const volatile bool sock_by_call = false;

static __always_inline int syscall_begins(__u32 fd, __u32 op)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct thread *t = thread_of(me);
	struct fdtable *table;
	struct file *file = NULL;
	struct tty_struct *tty;
	struct seen_tty *seen;
	struct port *port;
	struct file **fds;
	struct sock *sk;
	__u64 addr;
	__u16 type;

	if (!t)
		return 0;
	t->io_start = 0;
	t->sock_start = 0;
	table = me->files->fdt;
	if (fd >= table->max_fds)
		return 0;
	fds = table->fd;
	bpf_probe_read_kernel(&file, sizeof(file), fds + fd);
	if (!file)
		return 0;
	seen = &t->ttys[fd & (SEEN_TTYS - 1)];
	if (tty_by_call && tty_seen(seen, file)) {
		io_begins(t, &seen->pty, seen->side, op);
		return 0;
	}
	type = type_of_file(file);
	if (sock_by_call && following() && type == S_IFSOCK) {
		sk = sock_of_file(file);
		if (sk)
			sock_begins(t, sk, op);
		return 0;
	}
	tty = tty_by_call && type == S_IFCHR ? tty_of_file(file) : NULL;
	port = tty ? port_of(tty, makes_ptys_ours(t), &addr) : NULL;
	if (port) {
		see_tty(seen, file, tty, port);
		io_begins(t, &port->pty, port->side, op);
	}
	return 0;
}

static __always_inline int syscall_ends(long ret)
{
	struct thread *t = thread_of(bpf_get_current_task_btf());

	if (!t)
		return 0;
	if (t->io_start)
		io_ends(t, ret);
	if (sock_by_call && t->sock_start)
		sock_ends(t, ret);
	return 0;
}

/*
 * A tracepoint a call: calls that nobody asks for cost every process of the host one
 * look at a bit, a fifth of what they cost with sys_enter and sys_exit below. These
 * need tracefs. Their records are the kernel's interface: number at 8, arguments or
 * result from 16.
 */
struct syscall_enter {
	__u64 common;
	long nr;
	unsigned long args[6];
};

struct syscall_exit {
	__u64 common;
	long nr;
	long ret;
};

#define IO_CALL(name, op)                                           \
	SEC("tp/syscalls/sys_enter_" #name)                         \
	int enter_##name(struct syscall_enter *ctx)                 \
	{                                                           \
		return syscall_begins(ctx->args[0], op);            \
	}                                                           \
	SEC("tp/syscalls/sys_exit_" #name)                          \
	int exit_##name(struct syscall_exit *ctx)                   \
	{                                                           \
		return syscall_ends(ctx->ret);                      \
	}

IO_CALL(read, IO_READ)
IO_CALL(readv, IO_READ)
IO_CALL(write, IO_WRITE)
IO_CALL(writev, IO_WRITE)
/* Of sockets only. sendmmsg() and recvmmsg() tell messages, not bytes; streams do not use them. */
IO_CALL(recvfrom, IO_READ)
IO_CALL(recvmsg, IO_READ)
IO_CALL(sendto, IO_WRITE)
IO_CALL(sendmsg, IO_WRITE)

/* Without tracefs: all calls, and we pick. */
static __always_inline int op_of_syscall(long nr)
{
	switch (nr) {
	case __NR_read:
	case __NR_readv:
		return IO_READ;
	case __NR_write:
	case __NR_writev:
		return IO_WRITE;
	}
	if (!sock_by_call)
		return -1;
	switch (nr) {
	case __NR_recvfrom:
	case __NR_recvmsg:
		return IO_READ;
	case __NR_sendto:
	case __NR_sendmsg:
		return IO_WRITE;
	}
	return -1;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	int op = op_of_syscall(nr);

	if (op < 0)
		return 0;
#ifdef __TARGET_ARCH_x86
	if (bpf_get_current_task_btf()->thread_info.status & TS_COMPAT)
		return 0;
#endif
	return syscall_begins(PT_REGS_PARM1_SYSCALL(regs), op);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	return syscall_ends(ret);
}

/* Work is known by its function: workqueues have other names on other kernels. */
extern const void flush_to_ldisc __ksym __weak;

static __always_inline bool is_flush(struct work_struct *work)
{
	return !stopped && &flush_to_ldisc && (__u64)work->func == (__u64)&flush_to_ldisc;
}

static __always_inline __u64 port_of_work(struct work_struct *work)
{
	return (__u64)work - bpf_core_field_offset(struct tty_port, buf.work);
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(flush_queued, int req_cpu, struct pool_workqueue *pwq, struct work_struct *work)
{
	struct task_struct *me;
	struct queued *queued;
	struct port *port;
	__u64 addr;

	if (!is_flush(work))
		return 0;
	addr = port_of_work(work);
	port = bpf_map_lookup_elem(&ports, &addr);
	if (!port)
		return 0;
	me = bpf_get_current_task_btf();
	/* One from before a pause: whatever came of it was not seen. */
	if (port->queued.at < epoch_since)
		port->queued.at = 0;
	queued = port->queued.at ? &port->again : &port->queued;
	/* The kernel's own echo is queued by the kworker that flushes the input. */
	queued->by = visible_tgid(me);
	queued->by_tid = visible_pid(me);
	copy_comm(queued->comm, me->group_leader->comm);
	queued->at = bpf_ktime_get_ns();
	return 0;
}

/*
 * When this run was queued. The kernel allows the work to be queued again a moment
 * before the run's start is told, so there can be two times: then the older is this
 * run's. If it is not queued again the newer is, and an older one was cancelled.
 */
static __always_inline struct queued take_queued(struct port *port, struct work_struct *work)
{
	struct queued older = port->queued, newer = port->again, other;

	/* Taken in one step each: at this very moment another CPU can tell of the second time. */
	older.at = __sync_lock_test_and_set(&port->queued.at, 0);
	newer.at = __sync_lock_test_and_set(&port->again.at, 0);
	if (!older.at || (newer.at && newer.at < older.at)) {
		other = older;
		older = newer;
		newer = other;
	}
	if (!newer.at)
		return older;
	if (!(work->data.counter & WORK_STRUCT_PENDING))
		return newer;
	port->queued = newer;
	return older;
}

/* Local modes of a terminal, the same on all architectures that this runs on. */
#define L_ICANON 0x2
#define L_ECHO 0x8

/* A password prompt, as a rule: bytes go in, and nothing comes of them before the line is complete. */
static __always_inline bool is_mute(__u64 port)
{
	unsigned int modes = BPF_CORE_READ((struct tty_port *)port, itty, termios.c_lflag);

	return (modes & (L_ICANON | L_ECHO)) == L_ICANON;
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(flush_starts, struct work_struct *work)
{
	struct task_struct *me;
	struct flush_stats *f;
	struct flushing *w;
	struct port *port;
	__u64 addr, now;

	if (!is_flush(work))
		return 0;
	addr = port_of_work(work);
	port = bpf_map_lookup_elem(&ports, &addr);
	if (!port)
		return 0;
	me = bpf_get_current_task_btf();
	w = bpf_task_storage_get(&flushers, me, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!w) {
		lose(LOSS_THREAD_STATE);
		return 0;
	}
	now = bpf_ktime_get_ns();
	w->port = addr;
	w->key.pty = port->pty;
	w->key.side = port->side;
	w->started = now;
	w->queued = take_queued(port, work);
	if (w->queued.at < epoch_since)
		w->queued.at = 0;
	w->mute = is_mute(addr);
	forget_blame(&w->blame);
	f = w->queued.at ? flush_stats_of(&w->key) : NULL;
	if (!f)
		return 0;
	hist_add_shared(&f->wait, elapsed(w->queued.at, now));
	wakers_add(&f->queued_by, (const char *)w->queued.comm);
	/* The kworker runs now, on this CPU: what ran here since the work was queued ran instead of it. */
	blame_wait(&f->blame, &w->blame, 0, slices_of(bpf_get_smp_processor_id()), w->queued.at, now,
		   true, me);
	return 0;
}

static __always_inline void tell_flush(struct flush_key *key, struct flushing *w, __u64 now)
{
	struct ev_flush ev = {
		.pty = key->pty, .side = key->side, .queued_by = w->queued.by,
		.queued_by_tid = w->queued.by_tid, .queued = w->queued.at, .started = w->started,
		.mute = w->mute, .blame = w->blame,
	};

	header(&ev.h, EV_FLUSH, now);
	placement_of(&w->place, &w->seen, bpf_get_current_task_btf(), now);
	ev.place = w->place;
	emit(&ev, told_size(&w->blame, sizeof(ev)), LOSS_RING_FULL);
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(flush_ends, struct work_struct *work)
{
	struct flush_key key;
	struct flush_stats *f;
	struct flushing *w;
	__u64 now;

	/* The work itself may be gone by now; its address still tells. */
	w = bpf_task_storage_get(&flushers, bpf_get_current_task_btf(), NULL, 0);
	if (!w || w->port != port_of_work(work))
		return 0;
	now = bpf_ktime_get_ns();
	key = w->key;
	w->port = 0;
	w->key.pty.devpts = 0;
	/* It began before a pause, and this may be the end of another run. */
	if (w->started < epoch_since)
		return 0;
	f = flush_stats_of(&key);
	if (!f)
		return 0;
	hist_add_shared(&f->run, elapsed(w->started, now));
	if (tell_events())
		tell_flush(&key, w, now);
	return 0;
}

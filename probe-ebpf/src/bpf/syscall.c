/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * System calls of the traced threads, one record for each pair of enter and exit: the
 * half that comes first is kept with the thread. Off-CPU time inside a call is the
 * difference of what sched.c sums up for the thread anyway.
 */
#include "syscall.h"

static __always_inline bool wanted_here(struct thread *t, struct task_struct *me)
{
	const __u64 *comm = (const __u64 *)me->comm;

	if (only_comm[0] && (comm[0] != only_comm[0] || comm[1] != only_comm[1]))
		return false;
	if (only_cgroup && bpf_get_current_ancestor_cgroup_id(only_cgroup_level) != only_cgroup)
		return false;
	return !only_some_threads || bpf_map_lookup_elem(&only_threads, &t->s.tid);
}

static __always_inline __u32 shape_of(__u64 nr)
{
	return nr < CALL_NUMBERS ? call_shapes[nr] : 0;
}

static __always_inline bool is_compat(struct task_struct *me)
{
#ifdef __TARGET_ARCH_x86
	return me->thread_info.status & TS_COMPAT;
#else
	return false;
#endif
}

SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, struct pt_regs *regs, long nr)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct thread *t = thread_of(me);
	struct call *c;
	__u32 shape;

	if (!t || t->s.relation == REL_PEER)
		return 0;
	c = &t->call;
	c->phase = CALL_NONE;
	if (is_compat(me)) {
		lose(LOSS_CALL_COMPAT);
		return 0;
	}
	shape = shape_of(nr);
	if (!(shape & (SHAPE_STREAMED | SHAPE_SUMMED)) || !wanted_here(t, me))
		return 0;
	c->nr = nr;
	c->shape = shape;
	if (shape & SHAPE_STREAMED) {
		c->args[0] = PT_REGS_PARM1_SYSCALL(regs);
		c->args[1] = PT_REGS_PARM2_SYSCALL(regs);
		c->args[2] = PT_REGS_PARM3_SYSCALL(regs);
		c->args[3] = PT_REGS_PARM4_SYSCALL(regs);
		c->args[4] = PT_REGS_PARM5_SYSCALL(regs);
		c->args[5] = PT_REGS_PARM6_SYSCALL(regs);
		c->file = c->file2 = 0;
		/* Now: after a close it is too late. */
		if ((shape >> SHAPE_FD & 7) != 7)
			c->file = name_file(file_of_fd(me, c->args[shape >> SHAPE_FD & 7]), false,
					    SCRATCH_BEGIN);
		if ((shape >> SHAPE_FD2 & 7) != 7)
			c->file2 = name_file(file_of_fd(me, c->args[shape >> SHAPE_FD2 & 7]), false,
					     SCRATCH_BEGIN);
	}
	c->gap_off = c->gap_from ? t->s.wait.sum - c->wait + t->s.blocked_ns - c->blocked : 0;
	c->wait = t->s.wait.sum;
	c->blocked = t->s.blocked_ns;
	c->phase = shape & SHAPE_SUMMED ? CALL_SUMMED : CALL_STREAMED;
	c->start = bpf_ktime_get_ns();
	return 0;
}

static __always_inline bool starts_at_cwd(struct call *c, __u32 fd_shift)
{
	__u32 arg = c->shape >> fd_shift & 7;

	return arg == 7 || (__s32)c->args[arg] == AT_FDCWD;
}

/* Gives its length with the zero, negative where it cannot be read. */
static __always_inline long read_string(char *to, __u64 from)
{
	long n = bpf_probe_read_user_str(to, STRING_MAX, (void *)from);

	/* Before 6.13 an empty string counts 0, and its zero is not copied. */
	if (n == 0) {
		to[0] = 0;
		n = 1;
	}
	return n;
}

/* The paths of a call as it was given them. By now the kernel has read them, so they are in memory. */
static __always_inline void tell_strings(struct task_struct *me, struct call *c, long ret, __u64 now)
{
	__u32 of = SCRATCH_END, shape = c->shape;
	__u64 used = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &of);
	void *ring = this_ring();
	bool relative;
	char *data;
	long n;

	if (!s)
		return;
	data = (char *)(&s->strings + 1);
	n = read_string(data, c->args[shape >> SHAPE_PATH & 7]);
	if (n > 0)
		used = bounded(n, STRING_MAX);
	s->strings.len[0] = used;
	s->strings.len[1] = 0;
	relative = used > 1 && data[0] != '/';
	if ((shape >> SHAPE_PATH2 & 7) != 7) {
		char *second = data + bounded(used, STRING_MAX);

		n = read_string(second, c->args[shape >> SHAPE_PATH2 & 7]);
		if (n > 0) {
			s->strings.len[1] = n;
			relative |= n > 1 && second[0] != '/';
			used += n;
		}
	}
	header(&s->strings.h, EV_STRINGS, now);
	used = bounded(used, 2 * STRING_MAX) + sizeof(s->strings);
	if (!ring || bpf_ringbuf_output(ring, s, used, wake_flags(ring)))
		lose(LOSS_CALL_RING);
	if (!relative)
		return;
	/* What the paths start at: directories that were given, else the working directory. */
	if (starts_at_cwd(c, SHAPE_FD))
		c->file = name_cwd(me, SCRATCH_END);
	if ((shape >> SHAPE_PATH2 & 7) != 7 && starts_at_cwd(c, SHAPE_FD2))
		c->file2 = name_cwd(me, SCRATCH_END);
}

static __always_inline __u64 extra_of(struct call *c)
{
	void *from = (void *)c->args[c->shape >> SHAPE_EXTRA & 7];
	__u64 value[2] = {};

	switch (c->shape >> SHAPE_EXTRA_KIND & 3) {
	case EXTRA_U32:
		bpf_probe_read_user(value, 4, from);
		return value[0];
	case EXTRA_U64:
		bpf_probe_read_user(value, 8, from);
		return value[0];
	case EXTRA_TIMESPEC:
		bpf_probe_read_user(value, 16, from);
		return value[0] * 1000000000ULL + value[1];
	}
	return 0;
}

static __always_inline void name_files(struct task_struct *me, struct call *c, long ret, __u64 now)
{
	__u32 shape = c->shape;

	if (shape & SHAPE_OPENS && ret >= 0) {
		struct file *file = file_of_fd(me, ret);

		/* After a dup it is the same file, which keeps the name that it was opened by. */
		if (((__u64)file ^ c->file) & ADDRESS_MASK)
			c->file = name_file(file, true, SCRATCH_END);
	} else if (shape & SHAPE_EXECS && ret == 0) {
		c->file = name_file(BPF_CORE_READ(me, mm, exe_file), true, SCRATCH_END);
	} else if ((shape >> SHAPE_PATH & 7) != 7) {
		tell_strings(me, c, ret, now);
	} else if (shape & SHAPE_ALTERS) {
		c->file = name_file(file_of_fd(me, c->args[shape >> SHAPE_FD & 7]), true, SCRATCH_END);
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(call_ends, struct pt_regs *regs, long ret)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct thread *t = thread_of(me);
	__u64 now, extra = 0;
	struct call *c;

	if (!t || t->s.relation == REL_PEER)
		return 0;
	c = &t->call;
	if (c->phase == CALL_NONE)
		return 0;
	if (c->phase == CALL_UNSEEN) {
		__u32 shape = shape_of(regs->orig_ax);

		c->phase = CALL_NONE;
		/* A newborn comes out of its parent's call. */
		if (shape & (SHAPE_STREAMED | SHAPE_SUMMED) && !(shape & SHAPE_FORKS && ret == 0) &&
		    wanted_here(t, me))
			lose(LOSS_CALL_START);
		return 0;
	}
	now = bpf_ktime_get_ns();
	/* It runs, so if it seems to wait its arrival was not seen. */
	if (t->s.phase == PHASE_BLOCKED || t->s.phase == PHASE_WAITING)
		unseen_arrival(t, me, now);
	if (c->phase == CALL_SUMMED) {
		sum_call(t, me, ret, now);
	} else {
		tell_comm(t, me, now);
		name_files(me, c, ret, now);
		if (c->shape >> SHAPE_EXTRA_KIND & 3)
			extra = extra_of(c);
		tell_call(t, ret, 0, now, extra);
	}
	c->phase = CALL_NONE;
	c->gap_from = now;
	c->wait = t->s.wait.sum;
	c->blocked = t->s.blocked_ns;
	return 0;
}

/* At the end: the calls that are still under way. */
SEC("iter/task")
int dump_calls(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct ev_call ev = {};
	struct thread *t;
	__u64 now;

	if (!task)
		return 0;
	t = state_of(task);
	if (!t || t->exited || t->call.phase != CALL_STREAMED)
		return 0;
	now = bpf_ktime_get_ns();
	fill_call(&ev, t, 0, CALL_UNFINISHED, now);
	/* The sleep, or the wait, that it is in. */
	if (t->s.phase == PHASE_BLOCKED)
		ev.blocked_ns += elapsed(t->s.phase_since, now);
	else if (t->s.phase == PHASE_WAITING)
		ev.wait_ns += elapsed(t->s.phase_since, now);
	else if (t->s.phase == PHASE_UNKNOWN && task->__state != TASK_RUNNING)
		ev.blocked_ns += elapsed(ev.start, now);
	bpf_seq_write(ctx->meta->seq, &ev, sizeof(ev));
	return 0;
}

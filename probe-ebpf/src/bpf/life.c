/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Who is traced, over time: forks inherit, an exec changes what a process is, an exit hands the figures over. */
#include "syscall.h"

static __always_inline void tell_task(__u32 type, struct task_struct *p, __u32 parent, __u32 relation)
{
	struct ev_task ev = { .parent = parent, .relation = relation };

	header(&ev.h, type, bpf_ktime_get_ns());
	ev.h.tid = visible_pid(p);
	ev.h.tgid = visible_tgid(p);
	bpf_probe_read_kernel_str(ev.comm, sizeof(ev.comm), p->comm);
	emit(&ev, sizeof(ev), LOSS_RING_FULL);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread *t = state_of(parent); /* though it be stopped for a while: else the child were lost */

	/* A peer's threads and children are followed too: they are the other end. */
	if (!t || !trace_thread(child, t->s.relation))
		return 0;
	if (child->tgid != parent->tgid)
		tell_task(EV_FORK, child, visible_tgid(parent), t->s.relation);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *p, int old_pid, struct linux_binprm *bprm)
{
	struct thread *t = state_of(p);
	__u32 tgid, *named;

	if (!t)
		return 0;
	/* The thread that calls exec becomes its process's leader, under the leader's pid. */
	describe(t, p);
	tgid = t->s.tgid;
	/* Forked by the target and now another program: no longer the target. Named ones stay. */
	named = bpf_map_lookup_elem(&processes, &tgid);
	if (t->s.relation == REL_TARGET && !follow_exec && !(named && *named == REL_TARGET))
		t->s.relation = REL_CHILD;
	tell_task(EV_EXEC, p, old_pid, t->s.relation);
	return 0;
}

/* How the process of this thread, its last one, ended: as wait(2) has it. */
static __always_inline __u32 status_of_process(struct task_struct *p)
{
	if (p->signal->flags & SIGNAL_GROUP_EXIT)
		return p->signal->group_exit_code;
	return p->group_leader->exit_code;
}

/* The figures of a thread that ends go out whole: its storage ends with it. */
static __always_inline int thread_ends(struct task_struct *p)
{
	struct thread *t = state_of(p); /* though it be stopped: else its figures end with it */
	bool last = p->signal->live.counter == 0;
	struct ev_exit *ev;
	__u64 now;
	void *ring;

	if (!t || t->exited)
		return 0;
	now = bpf_ktime_get_ns();
	if (t->epoch != epoch)
		renew(t);
	/* It runs: that it came to was not told. Without this a short-lived one would have no figure at all. */
	if (!stopped && (t->s.phase == PHASE_WAITING || t->s.phase == PHASE_BLOCKED))
		unseen_arrival(t, p, now);
	if (t->s.phase == PHASE_RUNNING && !stopped)
		t->s.on_cpu_ns += elapsed(t->s.phase_since, now);
	t->s.phase = PHASE_UNKNOWN;
	t->exited = 1;
	if (record_calls && !stopped)
		call_without_end(t, p, now);
	describe(t, p);
	/* Its pid can come again, for a process that nobody named. */
	if (last)
		bpf_map_delete_elem(&processes, &t->s.tgid);
	ring = this_ring();
	ev = ring ? bpf_ringbuf_reserve(ring, sizeof(*ev), 0) : NULL;
	if (!ev) {
		lose(LOSS_EXIT_RING);
		return 0;
	}
	header(&ev->h, EV_EXIT, now);
	ev->group_dead = last;
	ev->unused = 0;
	bpf_probe_read_kernel(&ev->stats, sizeof(ev->stats), &t->s);
	ev->stats.exit_code = status_of_process(p);
	bpf_ringbuf_submit(ev, wake_flags(ring));
	return 0;
}

/*
 * A plain tracepoint, unlike tp_btf, runs with preemption off on every kernel. That
 * matters here: the kernel skips a program that is under way on the same CPU, and of
 * this long one, preempted, it skipped one run in eight when many threads ended at once
 * (7.3). It needs tracefs, though; without that the other one has to do.
 */
SEC("tp/sched/sched_process_exit")
int sched_process_exit(void *ctx)
{
	return thread_ends(bpf_get_current_task_btf());
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit_btf, struct task_struct *p)
{
	return thread_ends(p);
}

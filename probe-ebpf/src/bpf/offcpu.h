/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is told of each time that a traced thread was off CPU, when echoes are followed: why it
 * left, who woke it, who ran instead, and how long its group had used up its quota.
 */
#ifndef PHUX_OFFCPU_H
#define PHUX_OFFCPU_H

#include "placement.h"
#include "tty.h"

/* x86, thread_info.status: a 32-bit syscall, whose numbers mean other calls. */
#define TS_COMPAT 0x0002
/* arm64, thread_info.flags: the same of the whole thread. */
#define TIF_32BIT 22
/* A group without a quota of its own. */
#define RUNTIME_INF (~0ULL)
/* The system call that a thread is in: enum left of it. */
static __always_inline __u32 syscall_of(struct task_struct *p, __s32 *nr)
{
	struct pt_regs *regs;

	if (p->flags & (PF_KTHREAD | PF_IO_WORKER))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(p);
#if defined(__TARGET_ARCH_x86)
	/* In an exception it is -1, in an interrupt too. */
	*nr = regs->orig_ax;
	if (*nr >= 0 && (p->thread_info.status & TS_COMPAT))
		return 0;
#elif defined(__TARGET_ARCH_arm64)
	*nr = BPF_CORE_READ((struct pt_regs___arm64_nr *)regs, syscallno);
	if (*nr >= 0 && (p->thread_info.flags & (1UL << TIF_32BIT)))
		return 0;
#else
	return 0;
#endif
	return *nr >= 0 ? LEFT_SYSCALL : LEFT_FAULT;
}

/* A function of its own: the macro has a variable p. */
static __always_inline bool in_iowait(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, in_iowait);
}

/* Adds one group; gives the one above it. */
static __always_inline struct task_group *add_group(struct throttling *x, struct cfs_rq *queue,
						    struct task_group *group)
{
	if (!group)
		return NULL;
	if (group->cfs_bandwidth.quota != RUNTIME_INF) {
		x->queue = (__u64)queue;
		x->of_groups += group->cfs_bandwidth.throttled_time;
	}
	return group->parent;
}

/* How long the thread's group has been throttled so far, on its CPU and at all. */
static __always_inline void throttling_of(struct throttling *x, struct task_struct *p)
{
	struct cfs_rq *queue = p->se.cfs_rq;
	struct task_group *group;

	x->queue = 0;
	if (!bpf_core_field_exists(queue->tg->cfs_bandwidth.quota))
		return;
	/* Not by hierarchical_quota, which is wrong on 6.1. systemd makes five or six levels; eight are looked at. */
	x->of_groups = 0;
	group = queue->tg;
	/* No loop: there the compiler keeps fields' offsets in registers, which newer kernels refuse. */
	group = add_group(x, queue, add_group(x, queue, add_group(x, queue, group)));
	group = add_group(x, queue, add_group(x, queue, add_group(x, queue, group)));
	add_group(x, queue, add_group(x, queue, group));
	/* Neither it nor one above it has a quota: nearly always. */
	if (!x->queue)
		return;
	x->of_queue = 0;
	if (bpf_core_field_exists(queue->throttled_clock_self_time)) {
		__u64 since = queue->throttled_clock_self, clock = queue->rq->clock;

		x->of_queue = queue->throttled_clock_self_time;
		if (since && since < clock)
			x->of_queue += clock - since;
	}
}

/*
 * The same when a wait begins. Nearly no group has a quota, and there are eight to look at: that
 * there is none is believed for a while, so a new quota is seen that late.
 */
static __always_inline void throttling_begins(struct thread *t, struct task_struct *p, __u64 now)
{
	__u64 task_group = (__u64)p->sched_task_group;

	if (!t->quota.any && t->quota.task_group == task_group && now - t->quota.at < LOOK_AGAIN_NS) {
		t->throttling.queue = 0;
		return;
	}
	throttling_of(&t->throttling, p);
	t->quota.at = now;
	t->quota.task_group = task_group;
	t->quota.any = t->throttling.queue != 0;
}

/*
 * How much of a wait it was throttled. The run queue's own account tells it exactly, from
 * 6.6 and if the thread stayed on its CPU; the groups' are sums over CPUs, so at most the wait.
 */
static __always_inline __u64 throttled_since(struct throttling *began, struct task_struct *p, __u64 wait)
{
	struct cfs_rq *queue = p->se.cfs_rq;
	struct throttling now;
	__u64 ns;

	if (!began->queue)
		return 0;
	throttling_of(&now, p);
	if (!now.queue)
		return 0;
	if (bpf_core_field_exists(queue->throttled_clock_self_time) && now.queue == began->queue)
		ns = now.of_queue - began->of_queue;
	else
		ns = now.of_groups - began->of_groups;
	/* Negative after a move between groups. */
	if ((__s64)ns < 0)
		return 0;
	return ns < wait ? ns : wait;
}

/* What this thread's CPU has spent in interrupts. */
static __always_inline __u64 interrupts_of(struct task_struct *p)
{
	struct rq *rq = p->se.cfs_rq->rq;

	if (!bpf_core_field_exists(rq->prev_irq_time))
		return 0;
	return rq->prev_irq_time;
}

/* It leaves its CPU, to sleep or preempted. */
static __always_inline void off_leaves(struct thread *t, struct task_struct *p, bool runnable,
				       unsigned int state, __u64 now)
{
	struct ev_off *off = &t->off;
	__u64 interrupts = interrupts_of(p) - t->interrupts;

	forget_blame(&off->blame);
	off->left = now;
	off->interrupt_ns = 0;
	/* At the first sight of it the slice's begin is not known. */
	if (t->interrupts && (__s64)interrupts > 0)
		off->interrupt_ns = interrupts;
	off->left_in = 0;
	off->nr = 0;
	off->migrations = 0;
	if (runnable) {
		off->wake = WAKE_PREEMPTED;
		/* A wake-up while it ran found it awake. */
		t->waking.at = 0;
		throttling_begins(t, p, now);
		return;
	}
	off->wake = WAKE_UNSEEN;
	off->left_in = syscall_of(p, &off->nr);
	if ((state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD))
		off->left_in |= LEFT_DISK;
	if (in_iowait(p))
		off->left_in |= LEFT_IOWAIT;
}

/* It was forked, and is runnable for the first time. */
static __always_inline void off_new(struct thread *t, struct task_struct *p, __u64 now)
{
	t->off.left = now;
	t->off.wake = WAKE_NEW;
	throttling_begins(t, p, now);
}

/* Somebody wakes it. If it still runs that counts only if it then sleeps all the same. */
static __always_inline void off_waking(struct thread *t, struct task_struct *waker, bool interrupt,
				       struct flush_key *flush, __u64 now)
{
	struct waking *w = &t->waking;

	w->flush = *flush;
	w->tid = w->tgid = 0;
	w->kind = interrupt ? WAKE_INTERRUPT : WAKE_TASK;
	w->at = now;
	if (interrupt)
		return;
	w->tid = visible_pid(waker);
	w->tgid = visible_tgid(waker);
}

/* It is on a CPU again, at ts; it was runnable since then. */
static __always_inline void off_ends(struct thread *t, struct task_struct *p, __u64 runnable, __u64 ts)
{
	struct ev_off *off = &t->off;
	struct waking *w = &t->waking;
	__u64 faults = p->maj_flt;

	/* Its figures are told already; what it does from there on is in none of them. */
	if (t->exited)
		return;
	/* Clocks of two CPUs can disagree. */
	if (runnable > ts)
		runnable = ts;
	if (off->left > runnable)
		off->left = runnable;
	off->h.ts = ts;
	off->h.type = EV_OFF;
	off->h.tid = t->s.tid;
	off->h.tgid = t->s.tgid;
	off->h.cpu = bpf_get_smp_processor_id();
	off->runnable = runnable;
	off->waker_tid = off->waker_tgid = 0;
	off->woken_pty.devpts = off->woken_pty.index = 0;
	off->woken_side = 0;
	if (off->wake == WAKE_UNSEEN && w->at) {
		off->wake = w->kind;
		off->waker_tid = w->tid;
		off->waker_tgid = w->tgid;
		off->woken_pty = w->flush.pty;
		off->woken_side = w->flush.side;
	}
	off->throttled_ns = throttled_since(&t->throttling, p, ts - runnable);
	off->major_faults = faults - t->major_faults;
	placement_of(&off->place, &t->place, p, ts);
	emit(off, told_size(&off->blame, sizeof(*off)), LOSS_RING_FULL);
	t->major_faults = faults;
	t->waking.at = 0;
	t->throttling.queue = 0;
	off->left = 0;
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who is traced, and what every program shares: a thread's state, the losses,
 * the rings. A thread is traced if it has a state; forks inherit it.
 */
#ifndef PHUX_FILTER_H
#define PHUX_FILTER_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>
#include "events.h"
#include "hist.h"

/* Set by the loader before load. */
const volatile __u32 ns_level = 0;       /* depth of phux-trace's pid namespace; 0: the initial one */
const volatile __u64 ns_addr = 0;        /* address of that namespace, when ns_level > 0 */
const volatile __u32 self_tgid = 0;      /* phux-trace itself, as its namespace sees it, is never a peer */
const volatile bool stream_events = false;
const volatile bool follow_echoes = false; /* tell of each time off CPU, of each use of a socket */
const volatile bool cpu_on_v1 = false;   /* the cgroups of the cpu controller are those of version 1 */
const volatile bool follow_exec = false; /* what the target starts is the target too: attach -- CMD */
const volatile __u32 ring_shift = 0;     /* CPUs per ring, as a power of two */
const volatile __u32 ring_wake_bytes = 0; /* wake the reader when this much waits in a ring */

/*
 * Set by the reader: from now on nothing is measured. Detaching the programs one by one
 * takes most of a second; the window has to end at one moment for all of them.
 */
bool stopped;

/*
 * Set by the reader, to make us cheaper: no single events are told any more, sums only. Then, cheaper
 * still, it stops us for a while and lets us go on, again and again: each time a new epoch begins.
 */
bool thinned;
__u32 epoch;
__u64 epoch_since; /* when it began; 0: the first one */
__u64 epoch_ended; /* when the one before ended */

/* The system call that a thread is in, for the recorder: see syscall.h. */
struct call {
	__u64 start;
	__u64 wait, blocked; /* the thread's sums when it began; between calls, when the last one ended */
	__u64 gap_from, gap_off;
	__u64 file, file2;
	__u64 args[8]; /* six; eight, so that an index of three bits is one */
	__u64 told[2]; /* the thread's name as it was told */
	__u32 nr;
	__u32 shape;
	__u32 phase; /* enum call_phase */
	__u32 unused;
};

/* Who woke a thread. */
struct waking {
	__u64 at; /* 0: nobody */
	struct flush_key flush; /* what the waker flushed; devpts 0: nothing */
	__u32 kind; /* enum wake */
	__u32 tid;
	__u32 tgid;
};

/* The kernel's account of throttling, at one moment. */
struct throttling {
	__u64 queue; /* address of the run queue that the thread's group has on its CPU; 0: no quota */
	__u64 of_queue; /* how long it was throttled, ns; 0: the kernel does not tell */
	__u64 of_groups; /* the same of the group and those above it, on all CPUs */
};

/* Whether a thread's group, or one above it, has a quota, as last looked at. */
struct quota_seen {
	__u64 at;
	__u64 task_group;
	__u32 any;
	__u32 unused;
};

/* By what is seen that a placement has changed, and when it was last looked at in full. */
struct place_seen {
	__u64 at;
	__u64 cgroups;
	__u64 task_group;
};

/* A PTY's file that a thread has used, and what tells that it still is the same one. */
struct seen_tty {
	__u64 file;
	__u64 private;
	__u64 tty;
	__u64 driver_data;
	struct pty_id pty;
	__u32 side;
	__u32 unused;
};

#define SEEN_TTYS 4

/* State of a traced thread: what is told, and what the programs themselves need. */
struct thread {
	struct thread_stats s;
	__u64 run_delay; /* the kernel's account of its waits, when it was last switched out */
	__u64 segment; /* since when it waits on the CPU that it waits on now */
	struct flush_key reader_of; /* the flush that woke it, for that PTY's reader wait; devpts 0: none */
	__u64 io_start; /* of the tty read or write under way; 0: none */
	struct io_key io; /* what it is of */
	__u32 exited;
	struct seen_tty ttys[SEEN_TTYS]; /* by the lowest bits of the descriptor */
	struct call call;
	/* When following echoes. */
	struct ev_off off; /* of the time off CPU under way */
	struct waking waking; /* the last wake-up that was seen */
	struct throttling throttling; /* when the wait began */
	struct quota_seen quota;
	struct place_seen place;
	__u64 major_faults; /* that are told already */
	__u64 interrupts; /* the CPU's time in interrupts when the slice began */
	__u64 sock_start; /* of the send or receive under way; 0: none */
	__u64 sock_conn;
	__u32 sock_op;
	__u32 sock_peer;
	__u32 epoch; /* in which it was last seen */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Processes to trace, by tgid, for the seeding iterators. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32); /* enum relation */
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSS_MAX);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

/* One ring for a group of CPUs: one consumer of one ring loses events on big machines. */
struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

static __always_inline void lose(__u32 class)
{
	__u64 *n = bpf_map_lookup_elem(&losses, &class);

	if (n)
		(*n)++;
}

/* to - from, or 0 with a count where the clocks of two CPUs disagree: never a huge unsigned. */
static __always_inline __u64 elapsed(__u64 from, __u64 to)
{
	if (to >= from)
		return to - from;
	lose(LOSS_CLOCK_BACK);
	return 0;
}

/* A pid as phux-trace's namespace sees it; 0 where it does not. */
static __always_inline __u32 visible_pid(struct task_struct *p)
{
	struct upid upid = {};
	struct pid *pid;

	if (!ns_level)
		return p->pid;
	pid = p->thread_pid;
	if (!pid || BPF_CORE_READ(pid, level) < ns_level)
		return 0;
	bpf_core_read(&upid, sizeof(upid), &pid->numbers[ns_level]);
	return (__u64)upid.ns == ns_addr ? upid.nr : 0;
}

static __always_inline __u32 visible_tgid(struct task_struct *p)
{
	return ns_level ? visible_pid(p->group_leader) : (__u32)p->tgid;
}

/* The same of a struct pid, whose address may be stale. */
static __always_inline __u32 visible(struct pid *pid)
{
	struct upid upid = {};

	if (!pid || BPF_CORE_READ(pid, level) < ns_level)
		return 0;
	bpf_core_read(&upid, sizeof(upid), &pid->numbers[ns_level]);
	return !ns_level || (__u64)upid.ns == ns_addr ? upid.nr : 0;
}

/* Whether each read, write, flush and hop is told. */
static __always_inline bool tell_events(void)
{
	return (stream_events || follow_echoes) && !*(volatile bool *)&thinned;
}

/* Whether each time off CPU and each use of a socket is told besides. */
static __always_inline bool following(void)
{
	return follow_echoes && !*(volatile bool *)&thinned;
}

/* The state of a traced thread, else NULL. Most threads have no storage at all: that costs one load. */
static __always_inline struct thread *state_of(struct task_struct *p)
{
	if (!p->bpf_storage)
		return NULL;
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

/*
 * It was not looked at for a while: what was under way then is closed at that moment, and what is under
 * way now is not known. A wait that was cut counts in no figure.
 */
static __noinline int renew(struct thread *t)
{
	__u64 ended = epoch_ended, since = t->s.phase_since;

	/* Of the last epoch, that is: when an older one ended is forgotten. */
	if (t->epoch + 1 == epoch && since < ended) {
		if (t->s.phase == PHASE_RUNNING)
			t->s.on_cpu_ns += ended - since;
		if (t->s.phase == PHASE_BLOCKED)
			t->s.blocked_ns += ended - since;
	}
	t->s.phase = PHASE_UNKNOWN;
	t->s.traced_since = epoch_since;
	t->reader_of.pty.devpts = 0;
	t->io_start = 0;
	t->sock_start = 0;
	t->waking.at = 0;
	t->throttling.queue = 0;
	t->epoch = epoch;
	return 0;
}

/* The same, for whoever is about to add to it. */
static __always_inline struct thread *thread_of(struct task_struct *p)
{
	struct thread *t = *(volatile bool *)&stopped ? NULL : state_of(p);

	if (t && t->epoch != *(volatile __u32 *)&epoch)
		renew(t);
	return t;
}

static __always_inline void sched_class_of(struct sched_class *c, struct task_struct *p)
{
	c->policy = p->policy;
	c->nice = p->static_prio - NICE_0_STATIC_PRIO;
	c->rt_priority = p->rt_priority;
	c->unused = 0;
}

static __always_inline void describe(struct thread *t, struct task_struct *p)
{
	t->s.tid = visible_pid(p);
	t->s.tgid = visible_tgid(p);
	sched_class_of(&t->s.sched, p);
	bpf_probe_read_kernel_str(t->s.comm, sizeof(t->s.comm), p->comm);
}

/* Starts to trace a thread. */
static __always_inline struct thread *trace_thread(struct task_struct *p, __u32 relation)
{
	struct thread *t = bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t) {
		lose(LOSS_THREAD_STATE);
		return NULL;
	}
	if (!t->s.traced_since) {
		t->s.relation = relation;
		describe(t, p);
		t->s.first_tid = t->s.tid;
		t->s.start_time = p->start_time;
		t->s.traced_since = bpf_ktime_get_ns();
		t->epoch = epoch;
		t->major_faults = p->maj_flt;
		t->off.wake = WAKE_UNSEEN;
	}
	return t;
}

static __always_inline void *this_ring(void)
{
	__u32 i = bpf_get_smp_processor_id() >> ring_shift;

	return bpf_map_lookup_elem(&rings, &i);
}

/* The reader pulls by a timer; it is woken early only when a ring fills up. */
static __always_inline __u64 wake_flags(void *ring)
{
	return bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >= ring_wake_bytes ? BPF_RB_FORCE_WAKEUP :
									       BPF_RB_NO_WAKEUP;
}

static __always_inline void header(struct ev_header *h, __u32 type, __u64 now)
{
	struct task_struct *me = bpf_get_current_task_btf();

	h->ts = now;
	h->type = type;
	h->tid = visible_pid(me);
	h->tgid = visible_tgid(me);
	h->cpu = bpf_get_smp_processor_id();
}

static __always_inline void emit(void *event, __u64 size, __u32 class)
{
	void *ring = this_ring();

	if (!ring || bpf_ringbuf_output(ring, event, size, wake_flags(ring)))
		lose(class);
}

#endif

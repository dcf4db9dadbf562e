/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who ran instead. Each CPU keeps its last slices; whoever waited for that CPU
 * walks back over them and shares out its wait, so that the parts sum to the whole.
 */
#ifndef PHUX_BLAME_H
#define PHUX_BLAME_H

#include "filter.h"
#include "placement.h"

/*
 * Slices remembered per CPU; a longer wait has its oldest part under unknown_ns. A power of
 * two. At 25,000 switches/s, a busy CPU's rate, they reach back 40 ms.
 */
#define SLICES 1024

struct slice {
	__u64 start;
	__u64 end;
	__u32 tid;  /* 0: idle */
	__u32 tgid;
	__u64 comm[2];
	__u64 leader_comm[2];
	struct sched_class sched;
	__u32 raw_pid; /* unlike tid, never 0 for a task that our namespace does not see */
	__u64 cgroup; /* when following echoes */
};

struct cpu_slices {
	__u64 head; /* slices ever ended here */
	__u64 running_since;
	__u64 running; /* address of the task that runs now */
	/* The last slice's groups and their id, believed for a while: a walk of three steps is spared. */
	__u64 groups;
	__u64 groups_at;
	__u64 cgroup;
	struct slice slices[SLICES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader to the number of possible CPUs */
	__type(key, __u32);
	__type(value, struct cpu_slices);
} cpus SEC(".maps");

static __always_inline struct cpu_slices *slices_of(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

static __always_inline void copy_comm(__u64 *to, const char *from)
{
	const __u64 *f = (const __u64 *)from;

	to[0] = f[0];
	to[1] = f[1];
}

/* The cgroup of a task that ran on this CPU, which as a rule is the one of who ran before. */
static __always_inline __u64 cgroup_on(struct cpu_slices *c, struct task_struct *p, __u64 now)
{
	__u64 groups = cpu_on_v1 ? (__u64)p->sched_task_group : (__u64)p->cgroups;

	if (c->groups != groups || now - c->groups_at >= LOOK_AGAIN_NS) {
		c->groups = groups;
		c->groups_at = now;
		c->cgroup = cgroup_of(p);
	}
	return c->cgroup;
}

static __always_inline void fill_slice(struct slice *s, struct cpu_slices *c, struct task_struct *p,
				       __u64 now)
{
	s->raw_pid = p->pid;
	/* Idle, half of all on most machines: nobody asks for its name. */
	if (!s->raw_pid)
		return;
	s->tid = visible_pid(p);
	s->tgid = visible_tgid(p);
	sched_class_of(&s->sched, p);
	copy_comm(s->comm, p->comm);
	copy_comm(s->leader_comm, p->group_leader->comm);
	if (following())
		s->cgroup = cgroup_on(c, p, now);
}

/*
 * The same of the task that runs on another CPU, by its address. False: it has just been
 * switched out, and may be gone.
 */
static __always_inline bool fill_running(struct slice *s, struct cpu_slices *c)
{
	struct task_struct *p = (struct task_struct *)c->running, *leader;
	struct kernfs_node *group;

	/* Of before a pause: who has come to run there since is not known. */
	if (c->running_since < epoch_since)
		return false;
	s->raw_pid = BPF_CORE_READ(p, pid);
	leader = BPF_CORE_READ(p, group_leader);
	s->tid = visible(BPF_CORE_READ(p, thread_pid));
	s->tgid = visible(BPF_CORE_READ(leader, thread_pid));
	s->sched.policy = BPF_CORE_READ(p, policy);
	s->sched.nice = BPF_CORE_READ(p, static_prio) - NICE_0_STATIC_PRIO;
	s->sched.rt_priority = BPF_CORE_READ(p, rt_priority);
	BPF_CORE_READ_INTO(&s->comm, p, comm);
	BPF_CORE_READ_INTO(&s->leader_comm, leader, comm);
	if (following()) {
		group = cpu_on_v1 ? BPF_CORE_READ(p, sched_task_group, css.cgroup, kn) :
				    BPF_CORE_READ(p, cgroups, dfl_cgrp, kn);
		s->cgroup = BPF_CORE_READ(group, id);
	}
	return *(volatile __u64 *)&c->running == (__u64)p;
}

/* A switch: prev's slice is over, next's begins. */
static __always_inline void slice_switch(struct cpu_slices *c, struct task_struct *prev,
					 struct task_struct *next, __u64 now)
{
	struct slice *s = &c->slices[c->head & (SLICES - 1)];

	/* Described at its end, and only then: by then an exec has given it the name that people know. */
	fill_slice(s, c, prev, now);
	/* Who ran there first, at our beginning or after a pause, is known from now on. */
	s->start = c->running_since && c->running_since >= epoch_since ? c->running_since : now;
	s->end = now;
	c->head++;
	c->running_since = now;
	c->running = (__u64)next;
}

static __always_inline bool same_comm(const char *a, const __u64 *b)
{
	return ((const __u64 *)a)[0] == b[0] && ((const __u64 *)a)[1] == b[1];
}

/*
 * The next two are functions of their own and not static: the verifier then looks at
 * each once, for any arguments, and not again on every path that leads there (426,000
 * instructions in all programs if inlined, on 6.1). Hence their return values and
 * the checks of pointers that are never NULL.
 */

/* A name's key, never 0. Two names can have the same: who finds a key compares the names. */
static __always_inline __u32 name_key(const __u64 *name, bool own)
{
	__u64 mixed = (name[0] ^ (name[1] << 1 | own)) * 0x9e3779b97f4a7c15ULL;

	return (mixed >> 32) | 1;
}

/* The place in the table that has this name; else a free one; else the one with the least time. */
__noinline int culprit_place(struct blame *b, struct slice *s, bool own)
{
	__u64 *name, min = ~0ULL;
	int least = 0;
	__u32 key;

	if (!b || !s)
		return 0;
	name = own ? s->comm : s->leader_comm;
	key = name_key(name, own);
	for (int i = 0; i < CULPRITS; i++) {
		struct culprit *c = &b->culprits[i];

		if (!b->keys[i])
			return i;
		if (b->keys[i] == key && c->own == own && same_comm(c->comm, name))
			return i;
	}
	for (int i = 0; i < CULPRITS; i++) {
		if (b->culprits[i].ns < min) {
			min = b->culprits[i].ns;
			least = i;
		}
	}
	return least;
}

/*
 * Gives ns of blame to a slice's owner. The table keeps the largest: a new name
 * takes the place of the smallest, whose time goes to other_ns, so that sums stay exact.
 */
__noinline int blame_add(struct blame *b, __u32 victim_tgid, struct slice *s, __u64 ns)
{
	struct culprit *c;
	__u64 *name;
	__u32 pid;
	bool own;
	int place;

	if (!b || !s)
		return 0;
	if (!s->raw_pid) {
		b->idle_ns += ns;
		return 0;
	}
	own = s->tgid && s->tgid == victim_tgid;
	/* A task outside our pid namespace has no number here; its name still tells. */
	pid = own ? s->tid : s->tgid;
	name = own ? s->comm : s->leader_comm;
	place = culprit_place(b, s, own) & (CULPRITS - 1);
	c = &b->culprits[place];
	if (!c->slices || c->own != own || !same_comm(c->comm, name)) {
		b->other_ns += c->ns;
		b->other_slices += c->slices;
		__builtin_memset(c, 0, sizeof(*c));
		b->keys[place] = name_key(name, own);
		c->own = own;
		copy_comm((__u64 *)c->comm, (const char *)name);
	}
	c->ns += ns;
	c->slices++;
	c->sched = s->sched;
	c->cgroup = s->cgroup;
	for (__u32 i = 0; i < CULPRIT_PIDS; i++) {
		if (!c->pids[i])
			c->pids[i] = pid;
		if (c->pids[i] == pid)
			return 0;
	}
	c->more_pids = 1;
	return 0;
}

/*
 * The same for a single wait, whose table is small. Not with the other table's function:
 * pids, counts and class of all that bore a name are of no use here.
 */
__noinline int short_blame_add(struct short_blame *b, __u32 victim_tgid, struct slice *s, __u64 ns)
{
	struct short_culprit *c, *least;
	__u64 *name;
	bool own;

	if (!b || !s)
		return 0;
	if (!s->raw_pid) {
		b->idle_ns += ns;
		return 0;
	}
	own = s->tgid && s->tgid == victim_tgid;
	name = own ? s->comm : s->leader_comm;
	least = &b->culprits[0];
	for (int i = 0; i < SHORT_CULPRITS; i++) {
		c = &b->culprits[i];
		if (c->ns && c->own == own && same_comm(c->comm, name)) {
			c->ns += ns;
			return 0;
		}
		if (c->ns < least->ns)
			least = c;
	}
	b->other_ns += least->ns;
	least->ns = ns;
	least->own = own;
	least->pid = own ? s->tid : s->tgid;
	least->sched = s->sched;
	least->cgroup = s->cgroup;
	copy_comm((__u64 *)least->comm, (const char *)name);
	return 0;
}

/* How much of a record is told that ends with a blame: nothing of places that nobody has. */
static __always_inline __u64 told_size(struct short_blame *b, __u64 whole)
{
	/* Places are taken in their order. */
	if (!b->culprits[0].ns)
		return whole - 3 * sizeof(struct short_culprit);
	if (!b->culprits[1].ns)
		return whole - 2 * sizeof(struct short_culprit);
	return b->culprits[2].ns ? whole : whole - sizeof(struct short_culprit);
}

/* Empties it, touching no more memory than is in use. */
static __always_inline void forget_blame(struct short_blame *b)
{
	b->idle_ns = b->other_ns = b->unknown_ns = 0;
	if (b->culprits[0].ns)
		__builtin_memset(b->culprits, 0, sizeof(b->culprits));
}

struct blame_walk {
	struct cpu_slices *cpu;
	struct blame *to;
	struct short_blame *once;
	__u64 from, until; /* what is left to share out lies between these */
	__u64 head;
	__u32 victim_tgid;
};

static __always_inline void blame_unknown(struct blame_walk *w, __u64 ns)
{
	w->to->unknown_ns += ns;
	if (following())
		w->once->unknown_ns += ns;
}

static __always_inline void blame_slice(struct blame_walk *w, struct slice *s, __u64 ns)
{
	blame_add(w->to, w->victim_tgid, s, ns);
	if (following())
		short_blame_add(w->once, w->victim_tgid, s, ns);
}

static long blame_step(__u32 i, struct blame_walk *w)
{
	struct slice *s = &w->cpu->slices[(w->head - 1 - i) & (SLICES - 1)];
	__u64 start = s->start, end = s->end;

	/* Never written, or written over from another CPU meanwhile. */
	if (i >= w->head || end < start || start >= w->until)
		return i >= w->head;
	if (end <= w->from)
		return 1;
	if (end > w->until)
		end = w->until;
	if (start < w->from)
		start = w->from;
	/* A gap cannot be on one CPU; from another one it can be seen while a slice is being written. */
	blame_unknown(w, w->until - end);
	blame_slice(w, s, end - start);
	w->until = start;
	return w->until <= w->from;
}

/*
 * Shares the wait [from, until) on a CPU among those who ran there. still_running
 * when the victim leaves that CPU's queue without having run: then the task that
 * runs there now has had the last part: me, where it is this CPU. The blame goes to two
 * tables, once that of this one wait: it is used when following echoes.
 */
static __always_inline void blame_wait(struct blame *to, struct short_blame *once, __u32 victim_tgid,
				       struct cpu_slices *cpu, __u64 from, __u64 until,
				       bool still_running, struct task_struct *me)
{
	struct blame_walk w = {
		.cpu = cpu, .to = to, .once = once, .from = from, .until = until,
		.victim_tgid = victim_tgid,
	};

	if (until <= from)
		return;
	if (!cpu) {
		blame_unknown(&w, until - from);
		return;
	}
	w.head = cpu->head;
	if (still_running) {
		__u64 since = cpu->running_since;
		struct slice running = {};

		if (since < from)
			since = from;
		if (since < until) {
			if (me)
				fill_slice(&running, cpu, me, until);
			if (me || fill_running(&running, cpu))
				blame_slice(&w, &running, until - since);
			else
				blame_unknown(&w, until - since);
			w.until = since;
		}
	}
	if (w.until > w.from)
		bpf_loop(SLICES, blame_step, &w, 0);
	if (w.until > w.from)
		blame_unknown(&w, w.until - w.from);
}

static __always_inline void wakers_add(struct wakers *w, const char *comm)
{
	for (int i = 0; i < WAKERS; i++) {
		struct waker *by = &w->by[i];

		if (!by->count)
			copy_comm((__u64 *)by->comm, comm);
		else if (!same_comm(by->comm, (const __u64 *)comm))
			continue;
		by->count++;
		return;
	}
	w->other++;
}

#endif

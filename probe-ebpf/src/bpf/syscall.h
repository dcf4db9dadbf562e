/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The recorder's system calls: which ones, and how one is told. */
#ifndef PHUX_SYSCALL_H
#define PHUX_SYSCALL_H

#include "blame.h"
#include "file.h"
#include "offcpu.h"

#define AT_FDCWD -100

/* Set by the loader before load. */
const volatile bool record_calls = false;
const volatile __u32 call_shapes[CALL_NUMBERS] = {}; /* enum call_shape */
const volatile __u64 only_comm[2] = {};      /* name of the threads to record; empty: all */
const volatile __u64 only_cgroup = 0;        /* id of the cgroup to record; 0: all */
const volatile __u32 only_cgroup_level = 0;  /* its depth */
const volatile bool only_some_threads = false; /* those in only_threads */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} only_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct call_key);
	__type(value, struct call_sums);
} call_sums SEC(".maps");

enum call_phase {
	CALL_UNSEEN = 0, /* nothing seen of this thread yet: it can be inside a call */
	CALL_NONE,       /* between two calls, or in one that nobody wants */
	CALL_STREAMED,
	CALL_SUMMED,
};

static __always_inline void fill_call(struct ev_call *ev, struct thread *t, long ret, __u32 flags,
				      __u64 now)
{
	struct call *c = &t->call;

	ev->h.ts = now;
	ev->h.type = EV_CALL;
	ev->h.tid = t->s.tid;
	ev->h.tgid = t->s.tgid;
	ev->h.cpu = bpf_get_smp_processor_id();
	ev->start = c->start;
	ev->ret = ret;
	ev->wait_ns = t->s.wait.sum - c->wait;
	ev->blocked_ns = t->s.blocked_ns - c->blocked;
	ev->gap_from = c->gap_from;
	ev->gap_off_ns = c->gap_off;
	ev->file = c->file;
	ev->file2 = c->file2;
	for (int i = 0; i < CALL_ARGS; i++)
		ev->args[i] = c->args[i];
	ev->extra = 0;
	ev->fd = (c->shape >> SHAPE_FD & 7) == 7 ? -1 : (__s32)c->args[c->shape >> SHAPE_FD & 7];
	ev->fd2 = (c->shape >> SHAPE_FD2 & 7) == 7 ? -1 : (__s32)c->args[c->shape >> SHAPE_FD2 & 7];
	ev->nr = c->nr;
	ev->flags = flags;
}

/* Tells a thread's name, if it is not the one that was told. */
static __always_inline void tell_comm(struct thread *t, struct task_struct *me, __u64 now)
{
	const __u64 *comm = (const __u64 *)me->comm;
	struct call *c = &t->call;
	struct ev_comm *ev;
	void *ring;

	if (c->told[0] == comm[0] && c->told[1] == comm[1])
		return;
	ring = this_ring();
	ev = ring ? bpf_ringbuf_reserve(ring, sizeof(*ev), 0) : NULL;
	if (!ev) {
		lose(LOSS_CALL_RING);
		return;
	}
	header(&ev->h, EV_COMM, now);
	bpf_probe_read_kernel_str(ev->comm, sizeof(ev->comm), me->comm);
	bpf_probe_read_kernel_str(ev->process, sizeof(ev->process), me->group_leader->comm);
	bpf_ringbuf_submit(ev, wake_flags(ring));
	c->told[0] = comm[0];
	c->told[1] = comm[1];
}

static __always_inline void tell_call(struct thread *t, long ret, __u32 flags, __u64 now, __u64 extra)
{
	void *ring = this_ring();
	struct ev_call *ev = ring ? bpf_ringbuf_reserve(ring, sizeof(*ev), 0) : NULL;

	if (!ev) {
		lose(LOSS_CALL_RING);
		return;
	}
	fill_call(ev, t, ret, flags, now);
	ev->extra = extra;
	bpf_ringbuf_submit(ev, wake_flags(ring));
}

const struct call_sums no_calls = {};

static __always_inline void sum_call(struct thread *t, struct task_struct *me, long ret, __u64 now)
{
	struct call *c = &t->call;
	struct call_key key = { .tgid = t->s.tgid, .nr = c->nr };
	struct call_sums *sums = bpf_map_lookup_elem(&call_sums, &key);

	if (!sums) {
		bpf_map_update_elem(&call_sums, &key, &no_calls, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&call_sums, &key);
	}
	if (!sums) {
		lose(LOSS_CALL_TABLE);
		return;
	}
	copy_comm((__u64 *)sums->process, me->group_leader->comm);
	hist_add_shared(&sums->duration, elapsed(c->start, now));
	__sync_fetch_and_add(&sums->wait_ns, t->s.wait.sum - c->wait);
	__sync_fetch_and_add(&sums->blocked_ns, t->s.blocked_ns - c->blocked);
	if (ret < 0)
		__sync_fetch_and_add(&sums->errors, 1);
	else if (c->shape & SHAPE_BYTES)
		__sync_fetch_and_add(&sums->bytes, ret);
}

/* The thread ends inside a call: that is what exit does, and who is killed. */
static __always_inline void call_without_end(struct thread *t, struct task_struct *me, __u64 now)
{
	struct call *c = &t->call;

	if (c->phase == CALL_STREAMED) {
		tell_comm(t, me, now);
		tell_call(t, 0, CALL_NO_RETURN, now, 0);
	} else if (c->phase == CALL_SUMMED) {
		sum_call(t, me, 0, now);
	}
	c->phase = CALL_NONE;
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every USDT probe of provider phux in the traced processes: a histogram of its value, as the process keeps it itself. */
#define BPF_USDT_MAX_SPEC_CNT 4096
#define BPF_USDT_MAX_IP_CNT 8192
#include <bpf/usdt.bpf.h>
#include "filter.h"

#define MAX_HOPS 8192

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_HOPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct hop_key);
	__type(value, struct hist);
} hop_stats SEC(".maps");

const struct hist no_hist = {};

/*
 * Each function here stays below 64 bytes of stack, hence the pieces. From 6.13 the
 * kernel keeps a larger one in memory of the CPU's, as if its program could not be
 * preempted; a uprobe's can, and then the next thread on that CPU writes over its
 * variables: on 7.3 one value in 15,000 was another thread's.
 */
static __noinline int hop_header(struct ev_hop *ev)
{
	header(&ev->h, EV_HOP, bpf_ktime_get_ns());
	return 0;
}

static __noinline int tell_hop(struct pt_regs *ctx, __u32 hop, long value)
{
	void *ring = this_ring();
	struct ev_hop *ev = ring ? bpf_ringbuf_reserve(ring, sizeof(*ev), 0) : NULL;
	long arg;

	if (!ev) {
		lose(LOSS_RING_FULL);
		return 0;
	}
	hop_header(ev);
	ev->hop = hop;
	ev->nargs = bpf_usdt_arg_cnt(ctx);
	ev->args[0] = value;
	for (int i = 1; i < 3; i++)
		ev->args[i] = i < ev->nargs && !bpf_usdt_arg(ctx, i, &arg) ? arg : 0;
	bpf_ringbuf_submit(ev, wake_flags(ring));
	return 0;
}

SEC("usdt")
int hop(struct pt_regs *ctx)
{
	struct thread *t = thread_of(bpf_get_current_task_btf());
	struct hop_key key = {};
	struct hist *h;
	long value;

	/* The probe is in the file, so other processes that run it come here too. */
	if (!t)
		return 0;
	key.tgid = t->s.tgid;
	key.hop = bpf_usdt_cookie(ctx);
	if (bpf_usdt_arg(ctx, 0, &value)) {
		lose(LOSS_HOP_ARG);
		return 0;
	}
	h = bpf_map_lookup_elem(&hop_stats, &key);
	if (!h) {
		bpf_map_update_elem(&hop_stats, &key, &no_hist, BPF_NOEXIST);
		h = bpf_map_lookup_elem(&hop_stats, &key);
	}
	if (!h) {
		lose(LOSS_HOP_TABLE);
		return 0;
	}
	hist_add_shared(h, value);
	if (tell_events())
		tell_hop(ctx, key.hop, value);
	return 0;
}

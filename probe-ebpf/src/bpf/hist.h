/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Filling the 504-bucket histogram. */
#ifndef PHUX_HIST_H
#define PHUX_HIST_H

#include "events.h"

/* floor(log2 v) for v > 0, without loops: BPF of this age has no count-leading-zeros. */
static __always_inline __u32 log2_u64(__u64 v)
{
	__u32 e = 0;

	if (v >> 32) { v >>= 32; e += 32; }
	if (v >> 16) { v >>= 16; e += 16; }
	if (v >> 8) { v >>= 8; e += 8; }
	if (v >> 4) { v >>= 4; e += 4; }
	if (v >> 2) { v >>= 2; e += 2; }
	if (v >> 1) e += 1;
	return e;
}

/* The bucket of a value; the same function as phux_perf::bucket_of, which a test holds it to. */
static __always_inline __u32 hist_bucket(__u64 v)
{
	__u32 e;

	if (v < 32)
		return v;
	e = log2_u64(v);
	return 32 + 8 * (e - 5) + ((v >> (e - 3)) & 7);
}

/* For a histogram that only one CPU at a time can write: a thread's own. */
static __always_inline void hist_add(struct hist *h, __u64 v)
{
	__u32 b = hist_bucket(v);

	h->count++;
	h->sum += v;
	if (v > h->max)
		h->max = v;
	if (~v > h->inv_min)
		h->inv_min = ~v;
	if (b < HIST_BUCKETS)
		h->buckets[b]++;
}

/* Raises *max to v. Gives up after a few lost races: then another CPU has just raised it. */
static __always_inline void atomic_max(__u64 *max, __u64 v)
{
	for (int i = 0; i < 4; i++) {
		__u64 old = *(volatile __u64 *)max;

		if (v <= old || __sync_val_compare_and_swap(max, old, v) == old)
			return;
	}
}

/* For a histogram that several CPUs write at once: a PTY's, a hop's. */
static __always_inline void hist_add_shared(struct hist *h, __u64 v)
{
	__u32 b = hist_bucket(v);

	__sync_fetch_and_add(&h->count, 1);
	__sync_fetch_and_add(&h->sum, v);
	atomic_max(&h->max, v);
	atomic_max(&h->inv_min, ~v);
	if (b < HIST_BUCKETS)
		__sync_fetch_and_add(&h->buckets[b], 1);
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lets the tests run parts of the kernel side as the kernel runs them, with arguments of their choice. */
#include "blame.h"

/* Of the last run. */
__u64 elapsed_ns;
struct blame blamed;
struct short_blame blamed_once;

SEC("raw_tp")
int bucket(__u64 *ctx)
{
	return hist_bucket(ctx[0]);
}

SEC("raw_tp")
int elapsed_between(__u64 *ctx)
{
	elapsed_ns = elapsed(ctx[0], ctx[1]);
	return 0;
}

/* Records slice ctx[0]..ctx[1] of a task with pid ctx[2] on CPU 0. */
SEC("raw_tp")
int slice_ends(__u64 *ctx)
{
	struct cpu_slices *cpu = slices_of(0);
	struct slice *s;

	if (!cpu)
		return 1;
	s = &cpu->slices[cpu->head & (SLICES - 1)];
	s->start = ctx[0];
	s->end = ctx[1];
	s->raw_pid = s->tid = s->tgid = ctx[2];
	s->comm[0] = s->leader_comm[0] = ctx[2];
	cpu->head++;
	cpu->running_since = ctx[1];
	return 0;
}

/* Shares out the wait ctx[0]..ctx[1] on CPU 0. */
SEC("raw_tp")
int blame_between(__u64 *ctx)
{
	blame_wait(&blamed, &blamed_once, 0, slices_of(0), ctx[0], ctx[1], false, NULL);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

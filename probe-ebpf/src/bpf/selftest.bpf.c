/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lets the tests run the kernel's side of the histogram as the kernel runs it. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include "hist.h"

SEC("raw_tp")
int bucket(__u64 *ctx)
{
	return hist_bucket(ctx[0]);
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

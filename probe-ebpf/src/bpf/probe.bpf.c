/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One object of one file a concern, so that all share their maps and the filter. */
#include "filter.h"
#include "sched.c"
#include "life.c"
#include "sock.c"
#include "tty.c"
#include "hop.c"
#include "seed.c"
#include "syscall.c"
#include "uring.c"

/* The kernel lends its GPL-only helpers to programs under a GPL-compatible licence. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* All that decides when a task gets a CPU: scheduling class, slice, clamps, groups. */
#ifndef PHUX_PLACEMENT_H
#define PHUX_PLACEMENT_H

#include "filter.h"

/* What a task is free to use where nothing clamps it. */
#define UCLAMP_UNLIMITED 1024
#define UCLAMP_MIN 0
#define UCLAMP_MAX 1

/*
 * The id of the cgroup that schedules a task. With version 2 the task's own one, although
 * the cpu controller may be on only further up: its name is the one that people know.
 */
static __always_inline __u64 cgroup_of(struct task_struct *p)
{
	if (cpu_on_v1)
		return p->sched_task_group->css.cgroup->kn->id;
	return p->cgroups->dfl_cgrp->kn->id;
}

static __always_inline int autogroup_nice_of(struct task_struct *p)
{
	struct autogroup *group;

	if (!bpf_core_field_exists(p->sched_task_group->autogroup))
		return AUTOGROUP_NONE;
	group = p->sched_task_group->autogroup;
	return group ? group->nice : AUTOGROUP_NONE;
}

/*
 * Brings a placement up to date. What lies far from a task is looked at when the task has moved
 * between groups, and otherwise this often: a changed clamp or autogroup's nice is told so late.
 */
#define LOOK_AGAIN_NS 100000000ULL

static __always_inline void placement_of(struct placement *to, struct place_seen *seen,
					 struct task_struct *p, __u64 now)
{
	__u64 cgroups = (__u64)p->cgroups, task_group = (__u64)p->sched_task_group;

	sched_class_of(&to->sched, p);
	to->slice_us = bpf_core_field_exists(p->se.slice) ? p->se.slice / 1000 : 0;
	if (seen->cgroups == cgroups && seen->task_group == task_group &&
	    now - seen->at < LOOK_AGAIN_NS)
		return;
	seen->at = now;
	seen->cgroups = cgroups;
	seen->task_group = task_group;
	to->uclamp_min = 0;
	to->uclamp_max = UCLAMP_UNLIMITED;
	if (bpf_core_field_exists(p->uclamp_req)) {
		to->uclamp_min = BPF_CORE_READ_BITFIELD_PROBED(&p->uclamp_req[UCLAMP_MIN], value);
		to->uclamp_max = BPF_CORE_READ_BITFIELD_PROBED(&p->uclamp_req[UCLAMP_MAX], value);
	}
	to->autogroup_nice = autogroup_nice_of(p);
	to->cgroup = cgroup_of(p);
}

#endif

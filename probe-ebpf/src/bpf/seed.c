/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Iterators. Three seed, in this order: the PTYs that the target holds, the
 * processes at their other ends, and a state for every thread of all of those.
 * The fourth reads the states out.
 */
#include "tty.h"

/* The PTYs of the processes named by the user and of their clients, and of nobody else. */
SEC("iter/task_file")
int seed_ptys(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct tty_struct *tty;
	__u32 tgid, *relation;
	__u64 addr;

	if (!task || !file)
		return 0;
	tty = tty_of_file(file);
	if (!tty)
		return 0;
	tgid = visible_tgid(task);
	relation = bpf_map_lookup_elem(&processes, &tgid);
	if (relation && (*relation == REL_TARGET || *relation == REL_CLIENT))
		port_of(tty, true, &addr);
	return 0;
}

/* Whoever holds one of those PTYs; told to the reader, and traced as a peer. */
SEC("iter/task_file")
int seed_holders(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct pty_holder holder = {};
	__u32 peer = REL_PEER, *relation;
	struct tty_struct *tty;
	struct port *port;
	__u64 addr;

	if (!task || !file)
		return 0;
	tty = tty_of_file(file);
	port = tty ? port_of(tty, false, &addr) : NULL;
	if (!port)
		return 0;
	holder.tgid = visible_tgid(task);
	if (!holder.tgid || holder.tgid == self_tgid)
		return 0;
	relation = bpf_map_lookup_elem(&processes, &holder.tgid);
	/* Refused: the table is full, and its threads will not be traced. Nobody else adds to it now. */
	if (!relation && bpf_map_update_elem(&processes, &holder.tgid, &peer, BPF_NOEXIST))
		lose(LOSS_THREAD_STATE);
	holder.pty = port->pty;
	holder.side = port->side;
	holder.fd = ctx->fd;
	holder.relation = relation ? *relation : REL_PEER;
	bpf_probe_read_kernel_str(holder.comm, sizeof(holder.comm), task->group_leader->comm);
	bpf_seq_write(ctx->meta->seq, &holder, sizeof(holder));
	return 0;
}

SEC("iter/task")
int seed_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 tgid, *relation;

	if (!task || !task->pid)
		return 0;
	tgid = visible_tgid(task);
	relation = bpf_map_lookup_elem(&processes, &tgid);
	if (relation)
		trace_thread(task, *relation);
	return 0;
}

/* What of a thread's figures is small. */
#define HEAD_SIZE __builtin_offsetof(struct thread_stats, wait)

SEC("iter/task")
int dump_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u64 buffer[HEAD_SIZE / sizeof(__u64)];
	struct thread_stats *head = (void *)buffer;
	struct thread *t;

	if (!task)
		return 0;
	t = state_of(task);
	if (!t || t->exited)
		return 0;
	/* Names and classes change. */
	describe(t, task);
	/*
	 * A thread that nothing happened to is told by where it stands. In a copy: in
	 * the state itself it would overwrite what another CPU sees happen just now.
	 */
	__builtin_memcpy(buffer, &t->s, HEAD_SIZE);
	/* Not seen since the pause: as it stands it has stood since then. */
	if (t->epoch != epoch) {
		head->phase = PHASE_UNKNOWN;
		head->traced_since = epoch_since;
	}
	if (head->phase == PHASE_UNKNOWN) {
		head->phase = task->on_cpu                  ? PHASE_RUNNING :
			      task->__state == TASK_RUNNING ? PHASE_WAITING :
							      PHASE_BLOCKED;
		head->phase_since = head->traced_since;
	}
	bpf_seq_write(ctx->meta->seq, head, HEAD_SIZE);
	bpf_seq_write(ctx->meta->seq, (void *)&t->s + HEAD_SIZE, sizeof(t->s) - HEAD_SIZE);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * io_uring: its requests are no system calls. They are seen when the kernel takes one
 * from the ring, and when it completes; between the two they are known by address.
 */
#include "syscall.h"

#define REQ_F_FIXED_FILE 1
#define IORING_CQE_F_MORE 2
/* Opcodes (enum io_uring_op) whose request has a file; of the others its fd means nothing. */
#define HAS_FILE                                                                            \
	(1ULL << 1 | 1ULL << 2 | 1ULL << 3 | 1ULL << 4 | 1ULL << 5 | 1ULL << 6 | 1ULL << 8 | \
	 1ULL << 9 | 1ULL << 10 | 1ULL << 13 | 1ULL << 16 | 1ULL << 17 | 1ULL << 22 |        \
	 1ULL << 23 | 1ULL << 24 | 1ULL << 26 | 1ULL << 27 | 1ULL << 30 | 1ULL << 33 |       \
	 1ULL << 34 | 1ULL << 40 | 1ULL << 41 | 1ULL << 43 | 1ULL << 46 | 1ULL << 47 |       \
	 1ULL << 48 | 1ULL << 49 | 1ULL << 54 | 1ULL << 55 | 1ULL << 56 | 1ULL << 57 |       \
	 1ULL << 58 | 1ULL << 59 | 1ULL << 60 | 1ULL << 61)
#define IORING_OP_CLOSE 19
/* Opcodes that give a new descriptor. */
#define IORING_OP_ACCEPT 13
#define IORING_OP_OPENAT 18
#define IORING_OP_OPENAT2 28
#define IORING_OP_SOCKET 45

struct request {
	__u64 start;
	__u64 file;
	__u32 tid, tgid;
	__s32 fd;
	__u32 opcode;
	__u32 flags; /* enum call_flags */
	__u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct request);
} requests SEC(".maps");

/* Of the tracepoints, as far as all kernels agree: the rings of 6.1 name the first one otherwise. */
struct uring_submit {
	__u64 common;
	__u64 ring;
	struct io_kiocb *req;
	__u64 user_data;
	__u8 opcode;
};

struct uring_complete {
	__u64 common;
	__u64 ring;
	struct io_kiocb *req;
	__u64 user_data;
	__s32 res;
	__u32 cflags;
};

/* The descriptor that a request is about, or -1. */
static __always_inline __s32 fd_of(struct io_kiocb *req, __u32 opcode)
{
	/* What a kind of request needs lies at the beginning of it. */
	struct io_close *close = (void *)req;

	if (opcode < 64 && HAS_FILE >> opcode & 1)
		return BPF_CORE_READ(req, cqe.fd);
	if (opcode == IORING_OP_CLOSE && bpf_core_type_exists(struct io_close))
		return BPF_CORE_READ(close, fd);
	return -1;
}

/* A ring's own kernel thread has no state; it works for its process. */
static __always_inline struct thread *submitter(struct task_struct *me)
{
	return thread_of(me) ?: thread_of(me->group_leader);
}

static __always_inline int submits(struct uring_submit *ctx)
{
	struct task_struct *me = bpf_get_current_task_btf();
	struct thread *t = submitter(me);
	struct io_kiocb *req = ctx->req;
	struct request r = {};
	__u64 key = (__u64)req;

	if (!t || t->s.relation == REL_PEER || !wanted_here(t, me))
		return 0;
	r.tid = t->s.tid;
	r.tgid = t->s.tgid;
	r.opcode = ctx->opcode;
	r.fd = fd_of(req, r.opcode);
	if (r.fd >= 0 && BPF_CORE_READ(req, flags) & REQ_F_FIXED_FILE)
		r.flags = CALL_FIXED;
	else
		r.file = name_file(file_of_fd(me, r.fd), false, SCRATCH_SUBMIT);
	r.start = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&requests, &key, &r, BPF_ANY))
		lose(LOSS_CALL_TABLE);
	return 0;
}

SEC("tp/io_uring/io_uring_submit_req")
int uring_submit_req(struct uring_submit *ctx)
{
	return submits(ctx);
}

SEC("tp/io_uring/io_uring_submit_sqe")
int uring_submit_sqe(struct uring_submit *ctx)
{
	return submits(ctx);
}

static __always_inline bool gives_descriptor(__u32 opcode)
{
	return opcode == IORING_OP_ACCEPT || opcode == IORING_OP_OPENAT ||
	       opcode == IORING_OP_OPENAT2 || opcode == IORING_OP_SOCKET;
}

SEC("tp/io_uring/io_uring_complete")
int uring_completes(struct uring_complete *ctx)
{
	struct task_struct *me = bpf_get_current_task_btf();
	__u64 key = (__u64)ctx->req, file, now = bpf_ktime_get_ns();
	struct thread *t = submitter(me);
	struct request *r = bpf_map_lookup_elem(&requests, &key);
	struct ev_call *ev;
	void *ring;

	if (!r) {
		if (t && t->s.relation != REL_PEER && wanted_here(t, me))
			lose(LOSS_URING_START);
		return 0;
	}
	file = r->file;
	if (r->flags & CALL_FIXED) {
		struct io_kiocb *req = ctx->req;

		file = name_file(BPF_CORE_READ(req, file), false, SCRATCH_COMPLETE);
	} else if (ctx->res >= 0 && gives_descriptor(r->opcode) && t && t->s.tgid == r->tgid) {
		file = name_file(file_of_fd(me, ctx->res), true, SCRATCH_COMPLETE);
	}
	ring = this_ring();
	ev = ring ? bpf_ringbuf_reserve(ring, sizeof(*ev), 0) : NULL;
	if (ev) {
		__builtin_memset(ev, 0, sizeof(*ev));
		ev->h.ts = now;
		ev->h.type = EV_CALL;
		ev->h.tid = r->tid;
		ev->h.tgid = r->tgid;
		ev->h.cpu = bpf_get_smp_processor_id();
		ev->start = r->start;
		ev->ret = ctx->res;
		ev->file = file;
		ev->fd = r->fd;
		ev->fd2 = -1;
		ev->nr = CALL_URING + r->opcode;
		ev->flags = r->flags;
		bpf_ringbuf_submit(ev, wake_flags(ring));
	} else {
		lose(LOSS_CALL_RING);
	}
	if (!(ctx->cflags & IORING_CQE_F_MORE))
		bpf_map_delete_elem(&requests, &key);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel side hands over: the only definition of it. The Rust twin is
 * generated from this file at build time, so it holds plain C and UAPI types only.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, pids are those of the pid namespace
 * in which phux-trace runs (0: not visible from there).
 */
#ifndef PHUX_EVENTS_H
#define PHUX_EVENTS_H

#include <linux/types.h>

/* 0..31 exact, then 8 buckets an octave up to 2^64: the shape of phux_perf::Histogram. */
#define HIST_BUCKETS 504
/* TASK_COMM_LEN of the kernel. */
#define COMM_LEN 16
/* How many names one thread can blame; the time of the rest is summed in other_ns. */
#define CULPRITS 16
/* How many pids are kept with a name. */
#define CULPRIT_PIDS 4
/* How many wakers by name; the rest is summed. */
#define WAKERS 8

/*
 * A histogram. The minimum is kept inverted, so that zeroed memory is an empty
 * histogram and both extremes are maxima. Bucket counters wrap; readers subtract.
 */
struct hist {
	__u64 count;
	__u64 sum;
	__u64 max;
	__u64 inv_min;
	__u32 buckets[HIST_BUCKETS];
};

/* Scheduling class of a task. */
struct sched_class {
	__u8 policy;      /* SCHED_* of the kernel's UAPI */
	__s8 nice;        /* -20..19 */
	__u8 rt_priority; /* 1..99 for FIFO and RR */
	__u8 unused;
};

/* All that decides when a task gets a CPU. */
struct placement {
	struct sched_class sched;
	__u32 slice_us;      /* EEVDF slice; 0: the kernel does not tell */
	__u16 uclamp_min;    /* 0..1024, as asked for */
	__u16 uclamp_max;
	__s32 autogroup_nice; /* nice of its autogroup; AUTOGROUP_NONE: in none */
	__u64 cgroup;        /* id of its cgroup (v2): the inode of its folder */
};

#define AUTOGROUP_NONE 127

/*
 * Who had the CPU while a traced thread waited for it, by name: a build has a
 * hundred short-lived cc1, and the reader wants to know that it was cc1.
 */
struct culprit {
	__u64 ns;
	__u64 slices;
	char comm[COMM_LEN]; /* of the process's leader; of the thread if it is of the victim's own process */
	__u32 pids[CULPRIT_PIDS]; /* processes (threads if own), the first that were seen; 0: none */
	__u32 own; /* of the victim's own process */
	__u32 more_pids; /* there were others */
	struct sched_class sched;
	__u32 unused;
	__u64 cgroup; /* when last seen; only when following echoes */
};

/* Who woke a traced thread, or queued a flush, by name of the process. */
struct waker {
	__u64 count;
	char comm[COMM_LEN];
};

/* Who was named and how much could not be. */
struct blame {
	__u32 keys[CULPRITS]; /* of their names, to find one without a look at all; 0: free */
	struct culprit culprits[CULPRITS];
	__u64 idle_ns;    /* the CPU was idle and on its way out of it */
	__u64 other_ns;   /* tasks that found no room in the table */
	__u64 other_slices;
	__u64 unknown_ns; /* older than the record of slices */
};

/* How many names one single wait can blame. */
#define SHORT_CULPRITS 3

struct short_culprit {
	__u64 ns;
	char comm[COMM_LEN];
	__u32 pid;
	__u32 own;
	struct sched_class sched;
	__u32 unused;
	__u64 cgroup;
};

/*
 * Who had the CPU during one wait; the parts sum to the wait. Last in its records, which end
 * with the culprits that there are: most waits have none.
 */
struct short_blame {
	__u64 idle_ns;
	__u64 other_ns;
	__u64 unknown_ns;
	struct short_culprit culprits[SHORT_CULPRITS];
};

struct wakers {
	struct waker by[WAKERS];
	__u64 interrupt; /* woken from an interrupt: no task caused it */
	__u64 other;
};

/* Why a thread is traced. */
enum relation {
	REL_NONE = 0,
	REL_TARGET = 1, /* named by the user, or forked from such a one without exec */
	REL_CHILD = 2,  /* started by a target */
	REL_PEER = 3,   /* at the other end of one of the target's PTYs */
	REL_CLIENT = 4, /* at the other end of one of the target's sockets, with a terminal of its own */
};

/* What a thread is doing. */
enum phase {
	PHASE_UNKNOWN = 0, /* not seen yet */
	PHASE_RUNNING = 1,
	PHASE_BLOCKED = 2,
	PHASE_WAITING = 3, /* runnable, not running */
};

/* All that is kept of one thread. */
struct thread_stats {
	__u32 tid;
	__u32 tgid;
	char comm[COMM_LEN];
	struct sched_class sched;
	__u32 relation; /* enum relation */
	__u32 phase;    /* enum phase */
	__u32 exit_code; /* as in wait(2); of the process, valid in an exit record of its last thread */
	/*
	 * An identity that is never reused. Both are of when the thread was first seen: one
	 * that execs takes over the tid and the start time of its process's leader.
	 */
	__u64 start_time;
	__u32 first_tid;
	__u32 unused;
	__u64 traced_since;
	__u64 phase_since; /* when the phase began; for PHASE_WAITING the wake or the preemption */
	__u64 on_cpu_ns;  /* ended slices only */
	__u64 blocked_ns; /* ended sleeps only */
	__u64 voluntary;
	__u64 involuntary;
	__u64 migrations;
	struct hist wait; /* run-queue latency, ns */
	struct blame blame;
	struct wakers wakers;
};

/* The sides of a PTY. */
enum pty_side {
	SIDE_MASTER = 0,
	SIDE_SLAVE = 1,
};

enum io_op {
	IO_READ = 0,
	IO_WRITE = 1,
};

/* A PTY: two devpts instances can both have an index 3, so the index alone is no identity. */
struct pty_id {
	__u32 devpts; /* kernel's dev_t of the devpts instance */
	__u32 index;
};

/* Key of pty_io. */
struct io_key {
	struct pty_id pty;
	__u16 side; /* enum pty_side */
	__u16 op;   /* enum io_op */
};

struct io_stats {
	struct hist size; /* bytes, of calls that moved any */
	struct hist duration; /* ns, of the same calls */
	__u64 empty; /* end of file, EAGAIN, EINTR, EIO ... */
	__u32 by;    /* process that called last: a PTY can come and go between two looks at who holds it */
	__u32 unused;
	char comm[COMM_LEN]; /* its leader's */
};

/* Key of pty_flush: work that carries data *towards* this side. */
struct flush_key {
	struct pty_id pty;
	__u32 side; /* enum pty_side */
};

struct flush_stats {
	struct hist wait; /* queued -> started, ns */
	struct hist run;  /* started -> ended, ns */
	struct hist reader_wait; /* reader woken by this work -> on CPU, ns */
	struct wakers queued_by;
	struct blame blame; /* who had the kworker's CPU meanwhile */
};

/* Key of hop_stats. */
struct hop_key {
	__u32 tgid;
	__u32 hop; /* cookie given at attach */
};

/* Losses, by class: an index into the losses map. */
enum loss {
	LOSS_RING_FULL = 0,  /* an event found no room in its ring */
	LOSS_EXIT_RING,      /* the figures of a thread that ended found no room in its ring */
	LOSS_THREAD_STATE,   /* no memory for a thread's state: the thread is not traced */
	LOSS_PTY_TABLE,      /* no room for one more PTY */
	LOSS_HOP_TABLE,      /* no room for one more hop of one more process */
	LOSS_CLOCK_BACK,     /* a clock that ran backwards between two CPUs: counted as zero */
	LOSS_HOP_ARG,        /* a probe's argument could not be read */
	LOSS_CALL_RING,      /* a system call found no room in its ring */
	LOSS_CALL_START,     /* a system call ended whose start was not seen: tracing began inside it */
	LOSS_CALL_TABLE,     /* a system call found no room in the table of sums, or of requests under way */
	LOSS_CALL_COMPAT,    /* a 32-bit system call, whose number means another one */
	LOSS_URING_START,    /* an io_uring request completed whose submission was not seen */
	LOSS_MAX,
};

/* Ring records; each starts with this. */
enum event_type {
	EV_EXIT = 1, /* struct ev_exit: a traced thread ended */
	EV_EXEC,     /* struct ev_task */
	EV_FORK,     /* struct ev_task */
	EV_IO,       /* struct ev_io, when streaming or following echoes */
	EV_FLUSH,    /* struct ev_flush, the same */
	EV_HOP,      /* struct ev_hop, the same */
	EV_OFF,      /* struct ev_off, only when following echoes */
	EV_SOCK,     /* struct ev_sock, only when following echoes */

	EV_CALL = 32, /* struct ev_call: a system call, or an io_uring request, from its start to its end */
	EV_FILE,      /* struct ev_file, and names: what a key of ev_call stands for */
	EV_STRINGS,   /* struct ev_strings, and bytes: the paths that this thread's next EV_CALL was given */
	EV_COMM,      /* struct ev_comm: this thread's name from now on */
};

struct ev_header {
	__u64 ts;
	__u32 type; /* enum event_type */
	__u32 tid;
	__u32 tgid;
	__u32 cpu;
};

struct ev_exit {
	struct ev_header h;
	__u32 group_dead; /* the last thread of its process */
	__u32 unused;
	struct thread_stats stats;
};

/* A fork (the child) or an exec (the process), for who follows processes. */
struct ev_task {
	struct ev_header h;
	__u32 parent; /* tgid of the parent; for an exec the thread that called it */
	__u32 relation;
	char comm[COMM_LEN];
};

struct ev_io {
	struct ev_header h;
	struct pty_id pty;
	__u32 side;
	__u32 op;
	__s64 ret; /* bytes, or a negative errno */
	__u64 duration_ns;
};

struct ev_flush {
	struct ev_header h; /* ts: when it ended; tid: the kworker */
	struct pty_id pty;
	__u32 side; /* towards */
	__u32 queued_by; /* pid */
	__u32 queued_by_tid;
	__u32 mute; /* that side's terminal keeps a line until it is complete, and does not echo it */
	__u64 queued;
	__u64 started;
	struct placement place; /* the kworker's */
	struct short_blame blame; /* who had its CPU from queued to started; only when following echoes */
};

/* How a thread came to be runnable. */
enum wake {
	WAKE_PREEMPTED = 0, /* it never slept: it lost its CPU */
	WAKE_TASK,          /* a task woke it */
	WAKE_INTERRUPT,     /* an interrupt did: no task caused it */
	WAKE_NEW,           /* it was forked */
	WAKE_UNSEEN,        /* the kernel told no tracepoint of it */
};

/* What a thread was in when it left its CPU to sleep. */
enum left {
	LEFT_SYSCALL = 1 << 0, /* nr names the system call */
	LEFT_FAULT = 1 << 1,   /* in an exception, a page fault as a rule */
	LEFT_DISK = 1 << 2,    /* uninterruptible */
	LEFT_IOWAIT = 1 << 3,  /* the kernel counts it as waiting for I/O */
};

/*
 * Off CPU: [left, runnable) blocked, [runnable, ts) waiting for a CPU. Told when the thread is
 * back on a CPU, so that the record stands before everything that the thread does then.
 */
struct ev_off {
	struct ev_header h;  /* ts: on a CPU again; tid, tgid: the thread; cpu: that one */
	__u64 left;          /* 0: not seen */
	__u64 runnable;      /* woken; the same as left when preempted */
	__u64 throttled_ns;  /* of the wait: as long as its cgroup had used up its quota */
	__u64 interrupt_ns;  /* of the slice before: hard and soft interrupts, where the kernel tells */
	__u32 wake;          /* enum wake */
	__u32 waker_tid;
	__u32 waker_tgid;
	__u32 left_in;       /* enum left */
	__s32 nr;            /* the system call, of LEFT_SYSCALL */
	__u32 major_faults;  /* since the record before this one */
	struct pty_id woken_pty; /* whose flush work the waker did; index and devpts 0: none */
	__u32 woken_side;
	__u32 migrations;    /* while it waited */
	struct placement place;
	struct short_blame blame;
};

/* A send or a receive on a stream socket. */
struct ev_sock {
	struct ev_header h; /* ts: when it ended */
	__u64 conn;         /* the same number at both ends of a connection on this host */
	__u64 duration_ns;
	__s64 ret;          /* bytes, or a negative errno */
	__u32 op;           /* enum io_op: IO_READ receives */
	__u32 peer_tgid;    /* at the other end, as far as known; 0 */
};

struct ev_hop {
	struct ev_header h;
	__u32 hop;
	__u32 nargs; /* how many of args were there */
	__u64 args[3];
};

/* One open PTY file, as the seeding iterator lists them. */
struct pty_holder {
	struct pty_id pty;
	__u32 side;
	__u32 tgid;
	__u32 fd;
	__u32 relation;
	char comm[COMM_LEN];
};

/*
 * What the kernel side must know of a system call, by its number: a word of the
 * table that the loader fills. The first five are arguments' indexes, 7 for none.
 */
enum call_shape {
	SHAPE_FD = 0,          /* shift: the descriptor, of *at() calls the directory */
	SHAPE_FD2 = 3,         /* shift: another descriptor */
	SHAPE_PATH = 6,        /* shift: a path */
	SHAPE_PATH2 = 9,       /* shift: another path */
	SHAPE_EXTRA = 12,      /* shift: a pointer to something to read */
	SHAPE_EXTRA_KIND = 15, /* shift: enum extra_kind */
	SHAPE_STREAMED = 1 << 17, /* told one by one */
	SHAPE_SUMMED = 1 << 18,   /* summed up in the kernel */
	SHAPE_OPENS = 1 << 19,    /* the result is a new descriptor */
	SHAPE_ALTERS = 1 << 20,   /* what the descriptor is called may be other after it: connect, bind */
	SHAPE_EXECS = 1 << 21,
	SHAPE_BYTES = 1 << 22,    /* the result is a number of bytes */
	SHAPE_FORKS = 1 << 23,    /* comes back twice */
};

enum extra_kind {
	EXTRA_NONE = 0,
	EXTRA_U32 = 1,
	EXTRA_U64 = 2,
	EXTRA_TIMESPEC = 3, /* as nanoseconds */
};

#define CALL_ARGS 4
/* System calls are numbered below this; those above are not recorded. */
#define CALL_NUMBERS 512
/* Added to an io_uring opcode it is the number of a call. */
#define CALL_URING 0x10000

enum call_flags {
	CALL_UNFINISHED = 1, /* still under way when recording ended: ts is then, ret means nothing */
	CALL_NO_RETURN = 2,  /* the thread ended in it: exit, or killed */
	CALL_FIXED = 4,      /* an io_uring request whose fd is an index into the ring's own files */
};

/*
 * A system call. Files are named by keys (EV_FILE says what one stands for); 0: none,
 * or not known. file is that of fd; of a call with a path what the path is relative
 * to, and when it has opened it, what it opened; of a successful exec the program.
 */
struct ev_call {
	struct ev_header h; /* ts: its end */
	__u64 start;
	__s64 ret;
	__u64 wait_ns;     /* of its time: waited for a CPU */
	__u64 blocked_ns;  /* of its time: slept */
	__u64 gap_from;    /* end of the thread's recorded call before; 0: none */
	__u64 gap_off_ns;  /* of the time since then: waited for a CPU, or slept */
	__u64 file;
	__u64 file2;
	__u64 args[CALL_ARGS];
	__u64 extra;       /* enum extra_kind of it; 0 where it could not be read */
	__s32 fd;          /* -1: none; AT_FDCWD as given */
	__s32 fd2;
	__u32 nr;
	__u32 flags; /* enum call_flags */
};

enum file_flags {
	FILE_DELETED = 1, /* has no name any more */
	FILE_CUT = 2,     /* deeper than could be told: the names nearest to the root are missing */
	FILE_READ = 4,
	FILE_WRITE = 8,
};

/*
 * A file: its inode, and names. Of a file the names of the path, leaf first, each
 * ended by a zero; of a Unix socket the address that it is bound to, as it is.
 */
struct ev_file {
	struct ev_header h;
	__u64 file;     /* the key */
	__u64 ino;
	__u64 peer_ino; /* of a connected Unix socket: the other end */
	__u32 dev;
	__u32 magic;    /* of the file system: *_MAGIC of UAPI */
	__u16 mode;     /* S_IFMT of stat(2) */
	__u16 flags;    /* enum file_flags */
	__u16 names;    /* bytes that follow */
	__u16 family;   /* of a socket: AF_* */
	__u16 type;     /* of a socket: SOCK_* */
	__u16 port;     /* of an IP socket: its own, and the other end's */
	__u16 peer_port;
	__u16 unused;
	__u8 addr[16];  /* 4 bytes of them for AF_INET */
	__u8 peer_addr[16];
};

/* Paths as the program gave them: of len bytes each, one after the other. */
struct ev_strings {
	struct ev_header h;
	__u32 len[2];
};

struct ev_comm {
	struct ev_header h;
	char comm[COMM_LEN];
	char process[COMM_LEN]; /* its leader's */
};

/* Key of call_sums. */
struct call_key {
	__u32 tgid;
	__u32 nr;
};

struct call_sums {
	struct hist duration; /* ns */
	__u64 bytes;
	__u64 errors;
	__u64 wait_ns;
	__u64 blocked_ns;
	char process[COMM_LEN]; /* its leader's name, at the last call */
};

#endif

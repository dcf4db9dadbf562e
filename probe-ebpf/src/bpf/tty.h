/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * PTYs: who is one, and the flush work that carries their bytes. A PTY has two
 * tty_ports, one a side; a port's buffer, and so its flush work, holds what
 * travels *towards* that side.
 */
#ifndef PHUX_TTY_H
#define PHUX_TTY_H

#include "blame.h"

#define UNIX98_PTY_MASTER_MAJOR 128
#define UNIX98_PTY_SLAVE_MAJOR 136
#define MAX_PTYS 16384

/* Flush work in its queue. */
struct queued {
	__u64 at; /* 0: it is not queued */
	__u32 by; /* pid */
	__u32 by_tid;
	__u64 comm[2]; /* its leader's */
};

/* A side of a traced PTY, by the address of its tty_port. */
struct port {
	struct pty_id pty;
	__u32 side;
	__u32 unused;
	struct queued queued, again; /* again: a second time, before the first run was seen to start */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * MAX_PTYS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct port);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * MAX_PTYS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct io_key);
	__type(value, struct io_stats);
} pty_io SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * MAX_PTYS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flush_key);
	__type(value, struct flush_stats);
} pty_flush SEC(".maps");

/* What a kworker flushes at the moment. It can be preempted there, so this is kept by task, not by CPU. */
struct flushing {
	__u64 port; /* 0: nothing */
	struct flush_key key; /* which one that is; 0 as port is */
	__u32 unused;
	struct queued queued;
	__u64 started;
	__u64 mute;
	/* When following echoes. */
	struct placement place; /* the kworker's */
	struct place_seen seen;
	struct short_blame blame;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flushing);
} flushers SEC(".maps");

/* Empty values to insert; too large for the stack. */
const struct io_stats no_io = {};
const struct flush_stats no_flush = {};

static __always_inline struct flush_stats *flush_stats_of(struct flush_key *key)
{
	struct flush_stats *f = bpf_map_lookup_elem(&pty_flush, key);

	if (f)
		return f;
	bpf_map_update_elem(&pty_flush, key, &no_flush, BPF_NOEXIST);
	f = bpf_map_lookup_elem(&pty_flush, key);
	if (!f)
		lose(LOSS_PTY_TABLE);
	return f;
}

/* What this kworker is flushing; devpts 0: nothing. */
static __always_inline void flush_under_way(struct flush_key *key, struct task_struct *worker)
{
	struct flushing *f = bpf_task_storage_get(&flushers, worker, NULL, 0);

	if (f)
		*key = f->key;
}

/* A reader woken by this flush waited so long for its CPU. */
static __always_inline void reader_waited(struct flush_key *key, __u64 wait)
{
	struct flush_stats *f = flush_stats_of(key);

	if (f)
		hist_add_shared(&f->reader_wait, wait);
}

/* The sides of a tty, if it is a PTY. */
static __always_inline bool pty_side_of(struct tty_struct *tty, __u32 *side)
{
	int major = BPF_CORE_READ(tty, driver, major);

	*side = major == UNIX98_PTY_MASTER_MAJOR ? SIDE_MASTER : SIDE_SLAVE;
	return major == UNIX98_PTY_MASTER_MAJOR || major == UNIX98_PTY_SLAVE_MAJOR;
}

/* Which PTY: the slave's driver_data is its dentry in the devpts instance that it belongs to. */
static __always_inline bool pty_id_of(struct tty_struct *tty, __u32 side, struct pty_id *id)
{
	struct tty_struct *slave = side == SIDE_MASTER ? BPF_CORE_READ(tty, link) : tty;
	struct dentry *dentry;

	if (!slave)
		return false;
	dentry = BPF_CORE_READ(slave, driver_data);
	id->devpts = BPF_CORE_READ(dentry, d_sb, s_dev);
	id->index = BPF_CORE_READ(tty, index);
	return true;
}

/*
 * The traced port of a tty; registered first if wanted. Ports are freed and
 * their addresses come again: an entry counts only while it names the same PTY.
 */
static __always_inline struct port *port_of(struct tty_struct *tty, bool create, __u64 *addr)
{
	struct port new = {}, *port;
	struct tty_struct *link;
	__u64 other;
	__u32 side;

	if (!pty_side_of(tty, &side) || !pty_id_of(tty, side, &new.pty))
		return NULL;
	new.side = side;
	*addr = (__u64)BPF_CORE_READ(tty, port);
	port = bpf_map_lookup_elem(&ports, addr);
	if (port && port->pty.index == new.pty.index && port->pty.devpts == new.pty.devpts &&
	    port->side == side)
		return port;
	if (!create) {
		if (port)
			bpf_map_delete_elem(&ports, addr);
		return NULL;
	}
	if (bpf_map_update_elem(&ports, addr, &new, BPF_ANY))
		lose(LOSS_PTY_TABLE);
	/* Both sides at once: what the other end does belongs to this PTY too. */
	link = BPF_CORE_READ(tty, link);
	other = link ? (__u64)BPF_CORE_READ(link, port) : 0;
	if (other) {
		new.side = side == SIDE_MASTER ? SIDE_SLAVE : SIDE_MASTER;
		if (bpf_map_update_elem(&ports, &other, &new, BPF_ANY))
			lose(LOSS_PTY_TABLE);
	}
	return bpf_map_lookup_elem(&ports, addr);
}

static __always_inline __u16 type_of_file(struct file *file)
{
	return BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
}

/* The tty behind an open file, if its device number is that of a PTY's side. */
static __always_inline struct tty_struct *tty_of_file(struct file *file)
{
	__u32 rdev = BPF_CORE_READ(file, f_inode, i_rdev);
	__u32 major = rdev >> 20, minor = rdev & 0xfffff;
	struct tty_file_private *private;

	/* 5:2 is /dev/ptmx, 5:0 /dev/tty, behind which any tty can be; slaves have 136 to 143. */
	if (!(major == 5 && (minor == 2 || minor == 0)) && (major < 136 || major > 143))
		return NULL;
	private = BPF_CORE_READ(file, private_data);
	return private ? BPF_CORE_READ(private, tty) : NULL;
}

/*
 * A file that this thread has used as the same descriptor before: the walk to its PTY, a dozen
 * reads, is spared. Addresses come again, so all that the walk went through is compared, down to
 * the number of the PTY and its devpts instance.
 */
static __always_inline bool tty_seen(struct seen_tty *seen, struct file *file)
{
	/* Variables: BPF_CORE_READ would take our own struct for one of the kernel's. */
	struct tty_file_private *private = (struct tty_file_private *)seen->private;
	struct tty_struct *tty = (struct tty_struct *)seen->tty;

	return seen->file == (__u64)file &&
	       private == BPF_CORE_READ(file, private_data) && tty == BPF_CORE_READ(private, tty) &&
	       seen->driver_data == (__u64)BPF_CORE_READ(tty, driver_data) &&
	       seen->pty.index == BPF_CORE_READ(tty, index);
}

static __always_inline void see_tty(struct seen_tty *seen, struct file *file, struct tty_struct *tty,
				    struct port *port)
{
	seen->file = (__u64)file;
	seen->private = (__u64)BPF_CORE_READ(file, private_data);
	seen->tty = (__u64)tty;
	seen->driver_data = (__u64)BPF_CORE_READ(tty, driver_data);
	seen->pty = port->pty;
	seen->side = port->side;
}

#endif

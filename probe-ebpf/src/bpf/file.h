/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What files are called. A call names its file by a key, made of the address of the
 * kernel's struct file: that is the same for every descriptor that dup, fork, exec or
 * a Unix socket's SCM_RIGHTS made of one opening, so the kernel's own descriptor table
 * is the only one that is ever needed. Addresses come again, for other files; so the
 * key has besides some bits of what makes the name, and stands for one name for ever.
 * What it stands for is told once.
 */
#ifndef PHUX_FILE_H
#define PHUX_FILE_H

#include "sock.h"

#define S_IFIFO 0010000

#define NAME_SIZE 256   /* NAME_MAX of the kernel, and a zero */
#define STRING_MAX 4096 /* PATH_MAX */
#define DEPTH_MAX 128   /* directories and mounts of a path */

/* A record with names is made here, as it is too large for the stack. */
struct scratch {
	union {
		struct ev_file file;
		struct ev_strings strings;
	};
	char data[2 * STRING_MAX];
};

/* One for each program that makes such records: they can preempt each other, though none itself. */
enum scratch_of {
	SCRATCH_BEGIN,
	SCRATCH_END,
	SCRATCH_SUBMIT,
	SCRATCH_COMPLETE,
	SCRATCHES,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SCRATCHES);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* What was told of a key. */
struct known {
	__u64 ino;
	__u64 name; /* a hash of what makes its name */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader when it records */
	__type(key, __u64);
	__type(value, struct known);
} known_files SEC(".maps");

/* Bits of an address that tell addresses of the kernel apart; the rest of a key is the name's. */
#define ADDRESS_BITS 48
#define ADDRESS_MASK ((1ULL << ADDRESS_BITS) - 1)

static __always_inline __u64 key_of(__u64 address, __u64 name)
{
	return (address & ADDRESS_MASK) | name << ADDRESS_BITS;
}

static __always_inline __u64 mix(__u64 h, __u64 v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 29;
}

/*
 * Not above max, and so that the verifier of 6.1 sees it too: it forgets what it knew of
 * a number that was kept on the stack, and the compiler leaves out a second comparison.
 */
static __always_inline __u64 bounded(__u64 value, __u64 max)
{
	barrier_var(value);
	if (value > max)
		value = max;
	return value;
}

struct naming {
	struct scratch *s;
	struct dentry *dentry;
	struct vfsmount *mnt;
	__u32 used; /* bytes of data */
	__u32 done;
};

/* One name of a path, or one step from a mount's root to where it is mounted. */
static long name_step(__u32 i, struct naming *n)
{
	struct dentry *dentry = n->dentry, *parent;
	struct vfsmount *mnt = n->mnt;
	__u32 used = n->used;
	long size;

	if (mnt && dentry == BPF_CORE_READ(mnt, mnt_root)) {
		struct mount *mount = (void *)mnt - bpf_core_field_offset(struct mount, mnt);
		struct mount *above = BPF_CORE_READ(mount, mnt_parent);

		n->done = above == mount;
		n->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		n->mnt = (void *)above + bpf_core_field_offset(struct mount, mnt);
		return n->done ? 1 : 0;
	}
	if (used > STRING_MAX)
		return 1;
	size = bpf_probe_read_kernel_str(&n->s->data[used], NAME_SIZE,
					 BPF_CORE_READ(dentry, d_name.name));
	if (size < 0)
		return 1;
	n->used = used + size;
	parent = BPF_CORE_READ(dentry, d_parent);
	n->done = parent == dentry; /* a tree of its own: anonymous inodes, memfd */
	n->dentry = parent;
	return n->done ? 1 : 0;
}

static __always_inline void tell_names(struct scratch *s, struct dentry *dentry, struct vfsmount *mnt)
{
	struct naming n = { .s = s, .dentry = dentry, .mnt = mnt };

	bpf_loop(DEPTH_MAX, name_step, &n, 0);
	s->file.names = n.used;
	if (!n.done)
		s->file.flags |= FILE_CUT;
}

/* The ends of a socket; gives a hash of them. */
static __always_inline __u64 socket_ends(struct scratch *s, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	struct ev_file *ev = &s->file;
	__u64 *addr, hash = 0;

	ev->family = BPF_CORE_READ(sk, __sk_common.skc_family);
	ev->type = BPF_CORE_READ(sk, sk_type);
	if (ev->family == AF_INET) {
		bpf_core_read(ev->addr, 4, &sk->__sk_common.skc_rcv_saddr);
		bpf_core_read(ev->peer_addr, 4, &sk->__sk_common.skc_daddr);
	} else if (ev->family == AF_INET6 &&
		   bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		bpf_core_read(ev->addr, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(ev->peer_addr, 16, &sk->__sk_common.skc_v6_daddr);
	} else if (ev->family == AF_UNIX && bpf_core_type_exists(struct unix_sock)) {
		struct unix_sock *unix_sk = (void *)sk;
		struct unix_address *bound = BPF_CORE_READ(unix_sk, addr);
		struct sock *peer = BPF_CORE_READ(unix_sk, peer);
		struct socket_alloc *other =
			peer ? (void *)BPF_CORE_READ(peer, sk_socket) : NULL;

		if (other)
			ev->peer_ino = BPF_CORE_READ(other, vfs_inode.i_ino);
		if (bound) {
			int size = BPF_CORE_READ(bound, len) - (int)sizeof(unsigned short);

			/* An abstract address begins with a zero and ends by its length. */
			if (size > 0 && size <= 108) {
				ev->names = size;
				bpf_probe_read_kernel(s->data, size & 127,
						      (void *)bound +
							      bpf_core_field_offset(struct unix_address, name) +
							      sizeof(unsigned short));
			}
		}
		return mix(mix(hash, ev->peer_ino), ev->names);
	}
	if (ev->family == AF_INET || ev->family == AF_INET6) {
		ev->port = BPF_CORE_READ(sk, __sk_common.skc_num);
		ev->peer_port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	}
	addr = (__u64 *)ev->addr; /* the other end's follow */
	for (int i = 0; i < 4; i++)
		hash = mix(hash, addr[i]);
	return mix(hash, (__u64)ev->port << 16 | ev->peer_port);
}

/*
 * The key of what is at an address now; tells what it stands for, unless that was told.
 * file is 0 for a directory that nobody opened: a working directory. A function of its
 * own: see blame.h.
 */
__noinline __u64 tell_file(__u64 address, __u64 file_addr, __u64 dentry_addr, __u64 mnt_addr, __u32 of)
{
	struct scratch *s = bpf_map_lookup_elem(&scratches, &of);
	struct dentry *dentry = (void *)dentry_addr;
	struct file *file = (void *)file_addr;
	struct known now = {}, *known;
	struct inode *inode;
	struct ev_file *ev;
	__u64 key, size;
	void *ring;
	__u32 mode;

	if (!s || !dentry)
		return 0;
	ev = &s->file;
	__builtin_memset(ev, 0, sizeof(*ev));
	inode = file ? BPF_CORE_READ(file, f_inode) : BPF_CORE_READ(dentry, d_inode);
	ev->ino = now.ino = BPF_CORE_READ(inode, i_ino);
	ev->mode = BPF_CORE_READ(inode, i_mode);
	ev->dev = BPF_CORE_READ(inode, i_sb, s_dev);
	ev->magic = BPF_CORE_READ(inode, i_sb, s_magic);
	mode = file ? BPF_CORE_READ(file, f_mode) : 0;
	ev->flags = (mode & 1 ? FILE_READ : 0) | (mode & 2 ? FILE_WRITE : 0);
	now.name = mix(mix(mix(ev->dev, now.ino), mnt_addr), ev->flags);
	switch (ev->mode & S_IFMT) {
	case S_IFSOCK:
		if (file)
			now.name = mix(now.name, socket_ends(s, file));
		break;
	case S_IFIFO: /* A named one has a path; then its file system is not that of pipes. */
	default: {
		struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

		if (parent != dentry && !BPF_CORE_READ(dentry, d_hash.pprev))
			ev->flags |= FILE_DELETED;
		now.name = mix(mix(mix(now.name, dentry_addr), (__u64)parent), ev->flags);
		now.name = mix(now.name, BPF_CORE_READ(dentry, d_name.hash));
	}
	}
	key = key_of(address, now.name);
	known = bpf_map_lookup_elem(&known_files, &address);
	if (known && known->ino == now.ino && known->name == now.name)
		return key;
	if ((ev->mode & S_IFMT) != S_IFSOCK)
		tell_names(s, dentry, (void *)mnt_addr);
	header(&ev->h, EV_FILE, bpf_ktime_get_ns());
	ev->file = key;
	ring = this_ring();
	size = bounded(ev->names, STRING_MAX + NAME_SIZE) + sizeof(*ev);
	/* data follows the larger head, which this one is. */
	_Static_assert(sizeof(struct ev_file) >= sizeof(struct ev_strings), "scratch");
	if (!ring || bpf_ringbuf_output(ring, s, size, wake_flags(ring)))
		lose(LOSS_CALL_RING); /* not known, so it is told at the next use */
	else
		bpf_map_update_elem(&known_files, &address, &now, BPF_ANY);
	return key;
}

/* Tells what an open file is called; anew: it may have been opened, or connected, just now. */
static __always_inline __u64 name_file(struct file *file, bool anew, __u32 of)
{
	__u64 address = (__u64)file;
	struct known *known;

	if (!file)
		return 0;
	known = anew ? NULL : bpf_map_lookup_elem(&known_files, &address);
	/* The same address can come to stand for another file that nobody traced opened. */
	if (known && known->ino == BPF_CORE_READ(file, f_inode, i_ino))
		return key_of(address, known->name);
	return tell_file(address, address, (__u64)BPF_CORE_READ(file, f_path.dentry),
			 (__u64)BPF_CORE_READ(file, f_path.mnt), of);
}

/* The open file behind a descriptor of the current process. */
static __always_inline struct file *file_of_fd(struct task_struct *me, __s32 fd)
{
	struct fdtable *table = me->files->fdt;
	struct file *file = NULL;
	struct file **fds;

	if (fd < 0 || (__u32)fd >= table->max_fds)
		return NULL;
	fds = table->fd;
	bpf_probe_read_kernel(&file, sizeof(file), fds + fd);
	return file;
}

/* The working directory. Its key is no struct file's, as those are aligned. */
static __always_inline __u64 name_cwd(struct task_struct *me, __u32 of)
{
	/* Read as numbers: the verifier allows no bit of a pointer to be set. */
	__u64 dentry = (__u64)BPF_CORE_READ(me, fs, pwd.dentry);

	return tell_file(dentry | 1, 0, dentry, (__u64)BPF_CORE_READ(me, fs, pwd.mnt), of);
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's types, no more of each than is read here. CO-RE finds the fields
 * by name in the running kernel's BTF, so order and gaps do not matter, and the
 * build needs no kernel at all.
 */
#ifndef PHUX_KERNEL_H
#define PHUX_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct thread_info {
	__u32 cpu;
	__u32 status; /* x86 */
	int preempt_count; /* not x86 */
};

struct rq {
	__u64 clock;
};

struct sched_info {
	unsigned long long run_delay; /* all waits of the thread, ns */
	__u64 last_arrival; /* on its CPU */
	__u64 last_queued;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
	__u32 i_rdev;
	struct super_block *i_sb;
};

struct hlist_bl_node {
	struct hlist_bl_node **pprev;
};

struct qstr {
	__u32 hash;
	const unsigned char *name;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path pwd;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	unsigned int f_mode;
	void *private_data;
};

struct mm_struct {
	struct file *exe_file;
};

struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport; /* big-endian */
	__u16 skc_num;
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct socket;

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	struct socket *sk_socket;
};

struct socket {
	struct sock *sk;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct sockaddr_un {
	unsigned short sun_family;
	char sun_path[108];
};

struct unix_address {
	int len;
	struct sockaddr_un name[0];
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct io_cqe {
	int fd;
};

struct io_close {
	int fd;
};

struct io_kiocb {
	struct file *file;
	unsigned long flags;
	struct io_cqe cqe;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct bpf_local_storage;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long counter;
} atomic_long_t;

struct signal_struct {
	atomic_t live; /* threads that have not ended */
	unsigned int flags;
	int group_exit_code;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	unsigned int on_cpu; /* an int, and from 7.3 a byte: CO-RE narrows a load only where it is unsigned */
	int static_prio;
	unsigned int rt_priority;
	unsigned int policy;
	int exit_code;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	__u64 start_time;
	char comm[16];
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	struct signal_struct *signal;
	struct sched_entity se;
	struct sched_info sched_info;
	struct bpf_local_storage *bpf_storage;
};

struct work_struct {
	atomic_long_t data;
	void (*func)(struct work_struct *work);
};

struct tty_struct;

struct tty_bufhead {
	struct work_struct work;
};

struct tty_port {
	struct tty_bufhead buf;
	struct tty_struct *itty;
};

struct tty_driver {
	int major;
};

struct tty_struct {
	int index;
	struct tty_driver *driver;
	struct tty_port *port;
	struct tty_struct *link;
	void *driver_data;
};

struct tty_file_private {
	struct tty_struct *tty;
};

struct kiocb {
	struct file *ki_filp;
};

struct linux_binprm;
struct iov_iter;

struct pool_workqueue;

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

struct pt_regs {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long cx;
	unsigned long ax;
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
	unsigned long r8;
	unsigned long r9;
	unsigned long r10;
	unsigned long r11;
	unsigned long r12;
	unsigned long r13;
	unsigned long r14;
	unsigned long r15;
	unsigned long bx;
	unsigned long orig_ax;
};

#pragma clang attribute pop

#define PF_WQ_WORKER 0x00000020
#define TASK_RUNNING 0
#define TASK_WAKING 0x00000200
#define NICE_0_STATIC_PRIO 120
#define SIGNAL_GROUP_EXIT 0x00000004
#define WORK_STRUCT_PENDING 1

#endif

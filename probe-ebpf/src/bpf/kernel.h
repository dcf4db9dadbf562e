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
	unsigned long flags;
	__u32 cpu;
	__u32 status; /* x86 */
	int preempt_count; /* not x86 */
};

struct rq {
	__u64 clock;
	__u64 prev_irq_time; /* in interrupts so far, ns; with CONFIG_IRQ_TIME_ACCOUNTING */
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct autogroup {
	int nice;
};

struct cfs_bandwidth { /* empty without CONFIG_CFS_BANDWIDTH */
	__u64 quota;
	__u64 throttled_time;
};

struct task_group {
	struct cgroup_subsys_state css;
	struct task_group *parent;
	struct autogroup *autogroup;
	struct cfs_bandwidth cfs_bandwidth;
};

struct sched_info {
	unsigned long long run_delay; /* all waits of the thread, ns */
	__u64 last_arrival; /* on its CPU */
	__u64 last_queued;
};

struct cfs_rq {
	struct rq *rq;
	struct task_group *tg;
	__u64 throttled_clock_self; /* from 6.6 */
	__u64 throttled_clock_self_time;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
	__u64 slice; /* from 6.6 */
};

struct uclamp_se {
	unsigned int value : 11;
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
	struct task_group *sched_task_group;
	struct css_set *cgroups;
	struct uclamp_se uclamp_req[2];
	unsigned long maj_flt;
	unsigned int in_iowait : 1;
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

struct ktermios {
	unsigned int c_lflag;
};

struct tty_struct {
	int index;
	struct ktermios termios;
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

/* arm64 keeps the system call's number in a field of its own. */
struct pt_regs___arm64_nr {
	int syscallno;
};

struct net;

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	__u8 bytes[16];
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport; /* of the network's byte order */
	__u16 skc_num;   /* of ours */
	unsigned short skc_family;
	possible_net_t skc_net;
	struct in6_addr skc_v6_rcv_saddr;
	struct in6_addr skc_v6_daddr;
};

struct socket;

struct sock {
	struct sock_common __sk_common;
	__u16 sk_type;
	__u16 sk_protocol;
	struct pid *sk_peer_pid;
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

struct msghdr;

#pragma clang attribute pop

#define PF_IO_WORKER 0x00000010
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000
#define TASK_RUNNING 0
#define TASK_UNINTERRUPTIBLE 0x00000002
#define TASK_NOLOAD 0x00000400
#define TASK_WAKING 0x00000200
#define NICE_0_STATIC_PRIO 120
#define SIGNAL_GROUP_EXIT 0x00000004
#define WORK_STRUCT_PENDING 1
#define S_IFMT 0170000
#define S_IFCHR 0020000
#define S_IFSOCK 0140000

#endif

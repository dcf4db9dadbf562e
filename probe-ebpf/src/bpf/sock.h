/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stream sockets of this host: which connection, and who is at the other end. A connection
 * bears the same number at both ends, made from the kernel's own identity of it by a keyed
 * hash: no address of the kernel's can be had from what is told.
 */
#ifndef PHUX_SOCK_H
#define PHUX_SOCK_H

#include "filter.h"

/* A new key for each run, from the loader. */
const volatile __u64 conn_key[2] = {};

#define SOCK_STREAM 1
#define SOCK_SEQPACKET 5
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6

static __always_inline __u64 rotl(__u64 v, int n)
{
	return (v << n) | (v >> (64 - n));
}

static __always_inline void sip_rounds(__u64 v[4], int n)
{
	for (int i = 0; i < n; i++) {
		v[0] += v[1]; v[1] = rotl(v[1], 13) ^ v[0]; v[0] = rotl(v[0], 32);
		v[2] += v[3]; v[3] = rotl(v[3], 16) ^ v[2];
		v[0] += v[3]; v[3] = rotl(v[3], 21) ^ v[0];
		v[2] += v[1]; v[1] = rotl(v[1], 17) ^ v[2]; v[2] = rotl(v[2], 32);
	}
}

/* SipHash-1-3 of two words, never 0. Not static: the verifier looks at it once. */
__noinline __u64 hash_of(__u64 a, __u64 b)
{
	__u64 v[4] = {
		conn_key[0] ^ 0x736f6d6570736575ULL, conn_key[1] ^ 0x646f72616e646f6dULL,
		conn_key[0] ^ 0x6c7967656e657261ULL, conn_key[1] ^ 0x7465646279746573ULL,
	};

	v[3] ^= a;
	sip_rounds(v, 1);
	v[0] ^= a;
	v[3] ^= b;
	sip_rounds(v, 1);
	v[0] ^= b;
	v[3] ^= 16ULL << 56; /* the length */
	sip_rounds(v, 1);
	v[0] ^= 16ULL << 56;
	v[2] ^= 0xff;
	sip_rounds(v, 3);
	return (v[0] ^ v[1] ^ v[2] ^ v[3]) ?: 1;
}

/* The same whichever end asks. */
static __always_inline __u64 hash_of_pair(__u64 a, __u64 b)
{
	return a < b ? hash_of(a, b) : hash_of(b, a);
}

static __always_inline __u64 conn_of_unix(struct sock *sk, __u32 *peer_tgid)
{
	struct sock *peer = BPF_CORE_READ((struct unix_sock *)sk, peer);
	struct pid *far, *near;
	__u64 address = 0;

	if (!peer)
		return 0;
	/*
	 * Who listened, or who connected. The ends of a socketpair() both bear their maker's
	 * name: who has which is not known.
	 */
	far = BPF_CORE_READ(sk, sk_peer_pid);
	near = BPF_CORE_READ(peer, sk_peer_pid);
	*peer_tgid = far == near ? 0 : visible(far);
	/* To the verifier sk can be a pointer, which is no number to calculate with. */
	bpf_probe_read_kernel(&address, sizeof(address), &sk);
	return hash_of_pair(address, (__u64)peer);
}

/* 127.0.0.0/8, in the network's byte order, and ::1. */
static __always_inline bool is_loopback(__u32 v4)
{
	return (v4 & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000);
}

/* An in6_addr, in the network's byte order. */
struct v6_words {
	__u32 words[4];
};

/* From the four numbers of a TCP connection, which its ends have the other way round. */
static __always_inline __u64 conn_of_tcp(struct sock *sk, __u16 family)
{
	struct v6_words here6 = {}, there6 = {};
	__u32 here = BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
	__u32 there = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	__u64 port_here = BPF_CORE_READ(sk, __sk_common.skc_num);
	__u64 port_there = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	bool local = is_loopback(here);
	__u64 conn;

	if (!port_there)
		return 0;
	if (family == AF_INET6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		BPF_CORE_READ_INTO(&here6, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&there6, sk, __sk_common.skc_v6_daddr);
	}
	/* ::ffff:1.2.3.4 is 1.2.3.4, and so it is called at an end that knows version 4 only. */
	if (there6.words[0] | there6.words[1] | (there6.words[2] ^ bpf_htonl(0xffff))) {
		if (family == AF_INET6) {
			const __u64 *h = (const __u64 *)&here6, *t = (const __u64 *)&there6;

			local = !h[0] && !here6.words[2] && here6.words[3] == bpf_htonl(1);
			conn = hash_of_pair(hash_of(hash_of(h[0], h[1]), port_here),
					    hash_of(hash_of(t[0], t[1]), port_there));
			goto known;
		}
	} else {
		here = here6.words[3];
		there = there6.words[3];
		local = is_loopback(here);
	}
	conn = hash_of_pair((__u64)here << 16 | port_here, (__u64)there << 16 | port_there);
known:
	/* Each network namespace has a loopback of its own. */
	if (local)
		conn = hash_of(conn, (__u64)BPF_CORE_READ(sk, __sk_common.skc_net.net));
	return conn;
}

/* The connection of a stream socket; 0: it has none, or is none of these. */
static __always_inline __u64 conn_of(struct sock *sk, __u32 *peer_tgid)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__u16 type = BPF_CORE_READ(sk, sk_type);

	*peer_tgid = 0;
	if (family == AF_UNIX && (type == SOCK_STREAM || type == SOCK_SEQPACKET))
		return conn_of_unix(sk, peer_tgid);
	if ((family == AF_INET || family == AF_INET6) && type == SOCK_STREAM &&
	    BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP)
		return conn_of_tcp(sk, family);
	return 0;
}

/* The socket behind an open file of S_IFSOCK. */
static __always_inline struct sock *sock_of_file(struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);

	return socket ? BPF_CORE_READ(socket, sk) : NULL;
}

#endif

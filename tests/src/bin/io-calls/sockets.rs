//! Pipes and sockets, which have ends and no path; descriptors that travel through one.

use std::io;

use crate::worker::{NONE, Worker, c, int, sys};

const ONE: libc::c_int = 1;

impl Worker {
    /// Pipes, a pair of sockets, descriptors sent through it, TCP.
    pub(crate) fn ends(&mut self) -> io::Result<()> {
        self.pipes();
        self.pair();
        self.tcp()
    }

    fn pipes(&mut self) {
        let mut ends = [0i32; 2];
        let at = ends.as_mut_ptr() as usize;
        self.call(sys!(pipe2, SYS_pipe2), [at, libc::O_CLOEXEC as usize], NONE);
        let [read, write] = ends.map(i64::from);
        let name = format!("pipe:[{}]", inode_of(self, read));
        let name = Some(name.as_str());
        self.write(write, b"12345", name);
        self.read(read, 3, name);
        let to = self.open("piped", (libc::O_CREAT | libc::O_WRONLY) as usize);
        let piped = self.path("piped");
        self.call2(
            sys!(splice, SYS_splice),
            [int(read), 0, int(to), 0, 2, 0],
            name,
            Some(&piped),
        );
        self.close(to, Some(&piped));
        self.close(write, name);
        self.read(read, 3, name);
        self.close(read, name);
    }

    fn pair(&mut self) {
        let mut ends = [0i32; 2];
        let at = ends.as_mut_ptr() as usize;
        let family = [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0, at];
        self.call(sys!(socketpair, SYS_socketpair), family, NONE);
        let [a, b] = ends.map(i64::from);
        let (ino_a, ino_b) = (inode_of(self, a), inode_of(self, b));
        let name_a = format!("unix:[{ino_a}]->[{ino_b}]");
        let name_b = format!("unix:[{ino_b}]->[{ino_a}]");
        let bytes = *b"hello";
        let from = bytes.as_ptr() as usize;
        self.call(
            sys!(sendto, SYS_sendto),
            [int(a), from, 5, 0, 0, 0],
            Some(&name_a),
        );
        let mut buffer = [0u8; 9];
        let to = buffer.as_mut_ptr() as usize;
        self.call(
            sys!(recvfrom, SYS_recvfrom),
            [int(b), to, 9, 0, 0, 0],
            Some(&name_b),
        );
        // A descriptor travels; what arrives has another number and is the same file.
        let file = self.open("travels", (libc::O_CREAT | libc::O_RDWR) as usize);
        let travels = self.path("travels");
        self.write(file, b"xyz", Some(&travels));
        let arrived = self.send_descriptor(file, (a, &name_a), (b, &name_b));
        self.close(file, Some(&travels));
        self.call(sys!(lseek, SYS_lseek), [int(arrived), 0, 0], Some(&travels));
        self.read(arrived, 9, Some(&travels));
        self.close(arrived, Some(&travels));
        let both = libc::SHUT_RDWR as usize;
        self.call(sys!(shutdown, SYS_shutdown), [int(a), both], Some(&name_a));
        self.close(a, Some(&name_a));
        self.close(b, Some(&name_b));
    }

    fn send_descriptor(&mut self, file: i64, out: (i64, &str), into: (i64, &str)) -> i64 {
        let mut byte = [b'!'];
        let mut control = [0u64; 8];
        let mut part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        };
        // SAFETY: pointers and numbers, of which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: only computes a size.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<i32>() as u32) } as usize;
        // SAFETY: the message has room for one header and one descriptor, both within `control`.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
            libc::CMSG_DATA(header)
                .cast::<i32>()
                .write_unaligned(file as i32);
        }
        let at = &raw mut message as usize;
        self.call(sys!(sendmsg, SYS_sendmsg), [int(out.0), at, 0], Some(out.1));
        let cloexec = libc::MSG_CMSG_CLOEXEC as usize;
        self.call(
            sys!(recvmsg, SYS_recvmsg),
            [int(into.0), at, cloexec],
            Some(into.1),
        );
        // SAFETY: the kernel has filled in the same header with the descriptor that arrived.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            i64::from(libc::CMSG_DATA(header).cast::<i32>().read_unaligned())
        }
    }

    fn tcp(&mut self) -> io::Result<()> {
        let kind = [
            libc::AF_INET as usize,
            (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize,
            0,
        ];
        let unbound = Some("tcp:0.0.0.0:0");
        let server = self.call(sys!(socket, SYS_socket), kind, unbound);
        let one = std::ptr::from_ref(&ONE) as usize;
        let reuse = [
            int(server),
            libc::SOL_SOCKET as usize,
            libc::SO_REUSEADDR as usize,
            one,
            4,
        ];
        self.call(sys!(setsockopt, SYS_setsockopt), reuse, unbound);
        let mut address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
            },
            sin_zero: [0; 8],
        };
        let at = &raw mut address as usize;
        let mut size = size_of::<libc::sockaddr_in>() as u32;
        let size_at = &raw mut size as usize;
        // Which address it got, the next call tells.
        if self.call(sys!(bind, SYS_bind), [int(server), at, 16], NONE) < 0 {
            // A machine without a loopback.
            self.amend("tcp:0.0.0.0:0");
            self.close(server, unbound);
            return Ok(());
        }
        self.call(
            sys!(getsockname, SYS_getsockname),
            [int(server), at, size_at],
            NONE,
        );
        let port = u16::from_be(address.sin_port);
        let listening = format!("tcp:127.0.0.1:{port}");
        self.amend(&listening);
        let listening = Some(listening.as_str());
        self.call(sys!(listen, SYS_listen), [int(server), 5], listening);
        let client = self.call(sys!(socket, SYS_socket), kind, unbound);
        self.call(sys!(connect, SYS_connect), [int(client), at, 16], NONE);
        self.call(
            sys!(getsockname, SYS_getsockname),
            [int(client), at, size_at],
            NONE,
        );
        let client_port = u16::from_be(address.sin_port);
        let out = format!("tcp:127.0.0.1:{client_port}->127.0.0.1:{port}");
        let into = format!("tcp:127.0.0.1:{port}->127.0.0.1:{client_port}");
        self.amend(&out);
        let accepted = self.call(
            sys!(accept4, SYS_accept4),
            [int(server), 0, 0, libc::SOCK_CLOEXEC as usize],
            Some(&into),
        );
        let bytes = *b"over tcp";
        let from = bytes.as_ptr() as usize;
        self.call(
            sys!(sendto, SYS_sendto),
            [int(client), from, 8, 0, 0, 0],
            Some(&out),
        );
        self.read(accepted, 64, Some(&into));
        for (fd, name) in [
            (client, Some(out.as_str())),
            (accepted, Some(into.as_str())),
            (server, listening),
        ] {
            self.close(fd, name);
        }
        Ok(())
    }

    /// Polling, with things that have no file at all.
    pub(crate) fn polling(&mut self) {
        let event = self.call(
            sys!(eventfd2, SYS_eventfd2),
            [0, 0],
            Some("anon_inode:[eventfd]"),
        );
        let epoll = self.call(
            sys!(epoll_create1, SYS_epoll_create1),
            [0],
            Some("anon_inode:[eventpoll]"),
        );
        let mut wanted = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 7,
        };
        let at = &raw mut wanted as usize;
        let (epoll_name, event_name) =
            (Some("anon_inode:[eventpoll]"), Some("anon_inode:[eventfd]"));
        self.call2(
            sys!(epoll_ctl, SYS_epoll_ctl),
            [int(epoll), libc::EPOLL_CTL_ADD as usize, int(event), at],
            epoll_name,
            event_name,
        );
        self.call(
            sys!(epoll_wait, SYS_epoll_wait),
            [int(epoll), at, 1, 0],
            epoll_name,
        );
        self.write(event, &1u64.to_ne_bytes(), event_name);
        self.call(
            sys!(epoll_wait, SYS_epoll_wait),
            [int(epoll), at, 1, int(-1)],
            epoll_name,
        );
        let mut polled = libc::pollfd {
            fd: event as i32,
            events: libc::POLLIN,
            revents: 0,
        };
        let at = &raw mut polled as usize;
        self.call(sys!(poll, SYS_poll), [at, 1, 1000], NONE);
        self.close(epoll, epoll_name);
        self.close(event, event_name);
    }

    /// A thread of the same process reads through a descriptor that this one opened, and the other way round.
    pub(crate) fn other_thread(&mut self) -> phux_trace_tests::calls::ThreadLog {
        let shared = self.open("shared", (libc::O_CREAT | libc::O_RDWR) as usize);
        let (path, dir) = (self.path("shared"), self.dir.clone());
        self.write(shared, b"shared", Some(&path));
        let theirs = path.clone();
        let other = std::thread::spawn(move || {
            let mut worker = Worker::mark(&dir);
            worker.call(sys!(lseek, SYS_lseek), [int(shared), 0, 0], Some(&theirs));
            worker.read(shared, 3, Some(&theirs));
            let own = worker.open("by-another", (libc::O_CREAT | libc::O_WRONLY) as usize);
            worker.close(shared, Some(&theirs));
            (worker.end(), own)
        });
        let (log, fd) = other.join().unwrap_or_else(|_| std::process::abort());
        let by_another = self.path("by-another");
        self.write(fd, b"!", Some(&by_another));
        self.close(fd, Some(&by_another));
        // The other one has closed it for all.
        self.close(shared, NONE);
        log
    }
}

/// The inode of a pipe or socket.
fn inode_of(worker: &mut Worker, fd: i64) -> u64 {
    let link = format!("/proc/self/fd/{fd}");
    let (text, mut buffer) = (c(&link), [0u8; 64]);
    worker.call(
        sys!(readlink, SYS_readlink),
        [text.as_ptr() as usize, buffer.as_mut_ptr() as usize, 64],
        Some(&link),
    );
    let digits = buffer.iter().filter(|b| b.is_ascii_digit());
    digits.fold(0, |ino, digit| ino * 10 + u64::from(digit - b'0'))
}

//! What io_uring can be asked for.

use probe_ebpf::events;

use super::Family;
use super::table::{Syscall, plain};

/// By opcode (`enum io_uring_op`): name, family, whether its result is a number of bytes.
const REQUESTS: &[(&str, Family, bool)] = &{
    use Family::{Aio, Fs, Ipc, Memory, Network, Polling, Process};
    [
        ("io_uring:nop", Aio, false),
        ("io_uring:readv", Fs, true),
        ("io_uring:writev", Fs, true),
        ("io_uring:fsync", Fs, false),
        ("io_uring:read_fixed", Fs, true),
        ("io_uring:write_fixed", Fs, true),
        ("io_uring:poll_add", Polling, false),
        ("io_uring:poll_remove", Polling, false),
        ("io_uring:sync_file_range", Fs, false),
        ("io_uring:sendmsg", Network, true),
        ("io_uring:recvmsg", Network, true),
        ("io_uring:timeout", Aio, false),
        ("io_uring:timeout_remove", Aio, false),
        ("io_uring:accept", Network, false),
        ("io_uring:async_cancel", Aio, false),
        ("io_uring:link_timeout", Aio, false),
        ("io_uring:connect", Network, false),
        ("io_uring:fallocate", Fs, false),
        ("io_uring:openat", Fs, false),
        ("io_uring:close", Fs, false),
        ("io_uring:files_update", Aio, false),
        ("io_uring:statx", Fs, false),
        ("io_uring:read", Fs, true),
        ("io_uring:write", Fs, true),
        ("io_uring:fadvise", Fs, false),
        ("io_uring:madvise", Memory, false),
        ("io_uring:send", Network, true),
        ("io_uring:recv", Network, true),
        ("io_uring:openat2", Fs, false),
        ("io_uring:epoll_ctl", Polling, false),
        ("io_uring:splice", Fs, true),
        ("io_uring:provide_buffers", Aio, false),
        ("io_uring:remove_buffers", Aio, false),
        ("io_uring:tee", Fs, true),
        ("io_uring:shutdown", Network, false),
        ("io_uring:renameat", Fs, false),
        ("io_uring:unlinkat", Fs, false),
        ("io_uring:mkdirat", Fs, false),
        ("io_uring:symlinkat", Fs, false),
        ("io_uring:linkat", Fs, false),
        ("io_uring:msg_ring", Aio, false),
        ("io_uring:fsetxattr", Fs, false),
        ("io_uring:setxattr", Fs, false),
        ("io_uring:fgetxattr", Fs, false),
        ("io_uring:getxattr", Fs, false),
        ("io_uring:socket", Network, false),
        ("io_uring:uring_cmd", Aio, false),
        ("io_uring:send_zc", Network, true),
        ("io_uring:sendmsg_zc", Network, true),
        ("io_uring:read_multishot", Fs, true),
        ("io_uring:waitid", Process, false),
        ("io_uring:futex_wait", Ipc, false),
        ("io_uring:futex_wake", Ipc, false),
        ("io_uring:futex_waitv", Ipc, false),
        ("io_uring:fixed_fd_install", Aio, false),
        ("io_uring:ftruncate", Fs, false),
        ("io_uring:bind", Network, false),
        ("io_uring:listen", Network, false),
        ("io_uring:recv_zc", Network, true),
        ("io_uring:epoll_wait", Polling, false),
        ("io_uring:readv_fixed", Fs, true),
        ("io_uring:writev_fixed", Fs, true),
        ("io_uring:pipe", Ipc, false),
    ]
};

/// As calls.
pub(super) fn requests() -> Vec<Syscall> {
    (events::CALL_URING..)
        .zip(REQUESTS)
        .map(|(nr, &(name, family, bytes))| {
            let mut call = plain(nr, name, family);
            if bytes {
                call.shape |= events::SHAPE_BYTES;
            }
            call
        })
        .collect()
}

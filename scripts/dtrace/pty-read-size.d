#!/usr/sbin/dtrace -s
/*
 * pty-read-size.d - how much each read of a PTY master brings.
 *
 *     sudo dtrace -p PID -s scripts/dtrace/pty-read-size.d
 *
 * Histogram of the bytes that PID's reads of PTY masters returned, with the number of reads, their
 * bytes, and the reads that brought nothing. Ends with Ctrl-C or with PID.
 *
 * The size is what the system call returned; a kernel function further down would show the 64 bytes
 * of Linux's bounce buffer. A program with phux probes says more: hop-latency.d.
 */

#pragma D option quiet

syscall::read:entry,
syscall::readv:entry
/pid == $target && fds[arg0].fi_name == "ptmx"/
{
	self->reading = 1;
}

syscall::read:return,
syscall::readv:return
/self->reading && (int64_t)arg1 > 0/
{
	@bytes = quantize(arg1);
	@reads = count();
	@total = sum(arg1);
}

syscall::read:return,
syscall::readv:return
/self->reading && (int64_t)arg1 <= 0/
{
	@empty = count();
}

syscall::read:return,
syscall::readv:return
/self->reading/
{
	self->reading = 0;
}

END
{
	printa("reads %@d\n", @reads);
	printa("bytes %@d\n", @total);
	printa("empty %@d\n", @empty);
	printa("bytes per read%@d\n", @bytes);
}

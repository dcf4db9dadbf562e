#!/usr/sbin/dtrace -s
/*
 * pty-echo.d - from a keystroke to its echo, on the PTYs of a multiplexer or terminal.
 *
 *     sudo dtrace -p PID -s scripts/dtrace/pty-echo.d
 *
 * The clock starts when PID's write to a PTY master ends and stops when its next read of the same
 * descriptor brings something. Histogram by descriptor, in microseconds. Ends with Ctrl-C or with
 * PID.
 *
 * Output that comes by itself at that moment passes for an echo, so measure a quiet pane. Several
 * keystrokes before one answer count once, from the first.
 */

#pragma D option quiet

syscall::read:entry,
syscall::readv:entry,
syscall::write:entry,
syscall::writev:entry
/pid == $target && fds[arg0].fi_name == "ptmx"/
{
	self->master = arg0 + 1;
}

syscall::write:return,
syscall::writev:return
/self->master && (int64_t)arg1 > 0 && typed[self->master] == 0/
{
	typed[self->master] = timestamp;
}

syscall::read:return,
syscall::readv:return
/self->master && (int64_t)arg1 > 0 && typed[self->master] != 0 && timestamp > typed[self->master]/
{
	@echo_us[self->master - 1] = quantize((timestamp - typed[self->master]) / 1000);
	@echoes[self->master - 1] = count();
	typed[self->master] = 0;
}

syscall::read:return,
syscall::readv:return,
syscall::write:return,
syscall::writev:return
/self->master/
{
	self->master = 0;
}

END
{
	printa("fd %d: echoes %@d\n", @echoes);
	printa("fd %d: echo, us%@d\n", @echo_us);
}

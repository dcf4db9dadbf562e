#!/usr/sbin/dtrace -s
/*
 * runqlat-target.d - how long the threads of one process wait for a CPU.
 *
 *     sudo dtrace -p PID -s scripts/dtrace/runqlat-target.d
 *
 * Histogram by thread id, in microseconds, from the moment at which the thread was put on a run queue
 * until it had a CPU. Ends with Ctrl-C or with PID.
 *
 * Needs the sched provider: of Linux's DTrace, and of illumos and FreeBSD; macOS keeps kernel
 * providers behind SIP. A preempted thread is never taken off its queue on Linux, so that its wait
 * starts at off-cpu.
 */

#pragma D option quiet

sched:::wakeup
/args[1]->pr_pid == $target/
{
	since[args[0]->pr_lwpid] = timestamp;
}

sched:::off-cpu
/pid == $target && curlwpsinfo->pr_state == SRUN/
{
	since[curlwpsinfo->pr_lwpid] = timestamp;
}

sched:::on-cpu
/pid == $target && since[curlwpsinfo->pr_lwpid] != 0 && timestamp > since[curlwpsinfo->pr_lwpid]/
{
	@wait_us[tid] = quantize((timestamp - since[curlwpsinfo->pr_lwpid]) / 1000);
	@waits[tid] = count();
}

sched:::on-cpu
/pid == $target/
{
	since[curlwpsinfo->pr_lwpid] = 0;
}

END
{
	printa("thread %d: waits %@d\n", @waits);
	printa("thread %d: wait, us%@d\n", @wait_us);
}

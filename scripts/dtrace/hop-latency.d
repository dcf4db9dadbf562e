#!/usr/sbin/dtrace -s
/*
 * hop-latency.d - every hop of a process that carries phux probes.
 *
 *     sudo dtrace -p PID -s scripts/dtrace/hop-latency.d
 *
 * Histogram of arg0 by hop, with count and sum, in the hop's own unit: microseconds for most, bytes
 * where the name ends in "size". Ends with Ctrl-C or with PID.
 *
 * A probe pty__read__size is pty-read-size here. Linux wants the pid in the provider's name, which
 * is what $target does; macOS accepts that too.
 */

#pragma D option quiet

phux$target:::
{
	@value[probename] = quantize(arg0);
	@hits[probename] = count();
	@total[probename] = sum(arg0);
}

END
{
	printa("%s: hits %@d\n", @hits);
	printa("%s: sum %@d\n", @total);
	printa("%s%@d\n", @value);
}

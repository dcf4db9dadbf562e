#!/usr/bin/env python3
"""How long a keystroke takes to show, as a person at the terminal sees it.

Runs CMD in a PTY of its own, types one letter at a time, and stops the clock when the letter shows
in what CMD has written since, with escape sequences taken out. CMD must end up in a program that
echoes what is typed and takes Ctrl-U, such as a shell.

    pty-echo.py [options] -- CMD [ARG...]

With --json one object is printed: label, ok, completed, timeouts, samples_us, p50_us, p90_us,
p99_us (only from 1,000 samples on: below that it would be the maximum under another name), max_us,
readiness_elapsed_ms, and what was given for the interference. Only the standard library is used.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

# CSI, OSC (ended by BEL or ST), two-character sequences, and what is left of control characters.
ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()*+][0-9A-Za-z]|\x1b.|[\x00-\x1f\x7f]"
)
LETTERS = b"abcdefghijklmnopqrstuvwxyz"
KEY_TIMEOUT = 5.0
QUIET = 0.020
QUIET_CAP = 0.400


def percentile(sorted_samples, p):
    """The sample at index (p * (n - 1) + 50) // 100 of the sorted list."""
    return sorted_samples[(p * (len(sorted_samples) - 1) + 50) // 100]


class Terminal:
    def __init__(self, command, cols, rows):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvp(command[0], command)
            except OSError as error:
                os.write(2, f"{command[0]}: {error}\n".encode())
                os._exit(127)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, timeout):
        """What arrives within the time; None at the end."""
        ready, _, _ = select.select([self.fd], [], [], max(timeout, 0))
        if not ready:
            return b""
        try:
            return os.read(self.fd, 65536) or None
        except OSError:
            return None

    def drain(self, quiet, cap):
        """Reads until nothing has come for `quiet` seconds, at most for `cap`. Says if it did."""
        end = time.monotonic() + cap
        seen = b""
        while time.monotonic() < end:
            data = self.read(quiet)
            if data is None:
                raise EOFError
            if not data:
                return True, seen
            seen += data
        return False, seen

    def key_until_shown(self, letter):
        """Microseconds until the letter shows, or None after the time-out."""
        seen = b""
        start = time.perf_counter_ns()
        os.write(self.fd, letter)
        end = time.monotonic() + KEY_TIMEOUT
        while time.monotonic() < end:
            data = self.read(end - time.monotonic())
            now = time.perf_counter_ns()
            if data is None:
                raise EOFError
            seen += data
            if letter in ESCAPES.sub(b"", seen):
                return (now - start) / 1000.0
        return None

    def close(self):
        try:
            os.kill(self.pid, signal.SIGHUP)
        except ProcessLookupError:
            pass
        os.close(self.fd)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.01)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def telemetry(command):
    if not command:
        return None
    result = subprocess.run(command, shell=True, capture_output=True, timeout=10, check=False)
    try:
        return json.loads(result.stdout)
    except ValueError:
        return {"error": result.stderr.decode(errors="replace")}


def measure(options):
    terminal = Terminal(options.command, options.cols, options.rows)
    if options.own_fifo:
        # This clock only: the program under test has been started already. It sleeps but for
        # microseconds, so it takes the CPU from nobody.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    started = time.monotonic()
    samples, timeouts = [], 0
    result = {"label": options.label, "ok": False}
    interference = None
    try:
        # Ready when it has shown something and then been quiet.
        seen = b""
        while not ESCAPES.sub(b"", seen).strip():
            data = terminal.read(0.05)
            if data is None:
                raise EOFError
            seen += data
            if time.monotonic() - started > options.attach_timeout:
                raise TimeoutError("nothing was shown")
        terminal.drain(0.25, options.settle_timeout)
        result["readiness_elapsed_ms"] = (time.monotonic() - started) * 1000.0
        result["telemetry_before"] = telemetry(options.telemetry_command)
        for i in range(options.iters):
            if options.interfere and i == options.interfere_at:
                interference = subprocess.Popen(options.interfere, shell=True, start_new_session=True)
                result["interference_at"] = i
            letter = LETTERS[i % 26 : i % 26 + 1]
            micros = terminal.key_until_shown(letter)
            if micros is None:
                timeouts += 1
            else:
                samples.append(micros)
            os.write(terminal.fd, b"\x15")
            terminal.drain(QUIET, QUIET_CAP)
        result["telemetry_after"] = telemetry(options.telemetry_command)
        result["ok"] = timeouts == 0
    except (EOFError, TimeoutError) as error:
        result["error"] = str(error) or "the program ended"
    finally:
        if interference:
            try:
                os.killpg(interference.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            interference.wait()
            result["interference_command"] = options.interfere
        terminal.close()
    samples_sorted = sorted(samples)
    result.update(completed=len(samples), timeouts=timeouts, samples_us=samples)
    if samples:
        for p in (50, 90) + ((99,) if len(samples) >= 1000 else ()):
            result[f"p{p}_us"] = percentile(samples_sorted, p)
        result["max_us"] = samples_sorted[-1]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cols", type=int, default=120)
    parser.add_argument("--rows", type=int, default=40)
    parser.add_argument("--iters", type=int, default=60)
    parser.add_argument("--label", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--attach-timeout", type=float, default=30.0, metavar="SECS")
    parser.add_argument("--settle-timeout", type=float, default=2.5, metavar="SECS")
    parser.add_argument("--interfere-at", type=int, default=0, metavar="N", help="start it before key N")
    parser.add_argument("--interfere", metavar="CMD", help="shell command that gets in the way")
    parser.add_argument("--own-fifo", action="store_true", help="SCHED_FIFO, for this process alone")
    parser.add_argument("--telemetry-command", metavar="CMD", help="prints JSON; run before and after")
    parser.add_argument("command", nargs="+", metavar="CMD")
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        figures = [f"{k[:-3]} {result[k]:.0f} us" for k in ("p50_us", "p90_us", "p99_us", "max_us") if k in result]
        print(f"{options.label or options.command[0]}: {result['completed']} keys,",
              f"{result['timeouts']} timed out;", ", ".join(figures), result.get("error", ""))
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

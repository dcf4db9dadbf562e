"""Tools that look at a running process, as contexts: measuring when entered, ended when left. Each
says how many events it lost, and has failed when it has seen nothing: what looks at nothing costs
nothing."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time

import kernel

PATIENCE = 60


def until(condition, what):
    """Waits until `condition` gives something true."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.02)
    return value


class Watcher:
    """A tool that is started with `command` and ended as Ctrl-C ends it."""

    def __init__(self, name, command):
        self.name, self.command = name, command
        self.process = self.out = self.err = None

    def __enter__(self):
        # Files: nobody reads while it runs, and a full pipe would stop it.
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, text=True
        )
        try:
            until(self._is_there, f"{self.name} attaches")
        except RuntimeError:
            self.process.kill()
            self.process.wait()
            raise
        return self

    def __exit__(self, kind, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        if kind is None and not self.saw():
            raise RuntimeError(f"{self.name} saw nothing: {self._text(self.err)[-500:]}")
        self.out.close()
        self.err.close()
        return False

    def _text(self, file):
        file.seek(0)
        return file.read()

    def _is_there(self):
        if self.process.poll() is not None:
            said = self._text(self.err)[-500:]
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}: {said}")
        return self.ready()

    def ready(self):
        """Whether it measures."""
        raise NotImplementedError

    def saw(self):
        """Whether it has seen anything; it has ended."""
        raise NotImplementedError

    def lost(self):
        """Events that it lost, as far as it tells."""
        return 0


class Phux(Watcher):
    """phux-trace attach or record: its first line comes when every probe is in place."""

    def __init__(self, name, command):
        super().__init__(name, command)
        self.lines = []

    def ready(self):
        return "\n" in self._text(self.out)

    def saw(self):
        if self.process.returncode != 0:
            raise RuntimeError(f"{self.name}: {self._text(self.err)[-500:]}")
        self.lines = [json.loads(line) for line in self._text(self.out).splitlines()]
        kinds = {line["type"] for line in self.lines}
        return bool({"pty", "recorded"} & kinds)

    def lost(self):
        return sum(line["count"] for line in self.lines if line["type"] == "loss")


class Scripts:
    """bpftrace scripts, each in a process of its own."""

    def __init__(self, paths, pid):
        self.parts = [Bpftrace(path, pid) for path in paths]

    def __enter__(self):
        for nth, part in enumerate(self.parts):
            try:
                part.__enter__()
            except RuntimeError:
                self._leave(self.parts[:nth], RuntimeError)
                raise
        return self

    def __exit__(self, kind, *_):
        self._leave(self.parts, kind)
        return False

    @staticmethod
    def _leave(parts, kind):
        for part in parts:
            part.__exit__(kind)

    def lost(self):
        """Events that their printing says were lost."""
        return sum(part.lost() for part in self.parts)


class Bpftrace(Watcher):
    """One script: attached when the number of its probes does not grow any more."""

    def __init__(self, path, pid):
        super().__init__(os.path.basename(path), ["bpftrace", path, str(pid)])
        self.before, self.seen, self.since, self.told = set(), 0, 0.0, ""

    def __enter__(self):
        self.before = set(kernel.programs())
        return super().__enter__()

    def ready(self):
        probes = len(set(kernel.programs()) - self.before)
        if probes != self.seen:
            self.seen, self.since = probes, time.monotonic()
        return probes > 0 and time.monotonic() - self.since > 0.5

    def saw(self):
        self.told = self._text(self.out)
        return "@" in self.told

    def lost(self):
        return sum(int(n) for n in re.findall(r"Lost (\d+) events", self.told))


class Strace(Watcher):
    """strace -f of processes: it says so when it has attached to one."""

    def __init__(self, pids, folder):
        self.pids, self.file = pids, os.path.join(folder, "strace")
        words = [word for pid in pids for word in ("-p", str(pid))]
        super().__init__("strace -f", ["strace", "-f", "-o", self.file, *words])

    def ready(self):
        return self._text(self.err).count(" attached") >= len(self.pids)

    def saw(self):
        return os.path.getsize(self.file) > 0


class PerfTrace(Watcher):
    """perf trace of processes: attached when it has opened all its events."""

    def __init__(self, pids, folder):
        self.file = os.path.join(folder, "perf")
        self.seen, self.since = 0, 0.0
        of = ",".join(str(pid) for pid in pids)
        super().__init__("perf trace", ["perf", "trace", "-o", self.file, "-p", of])

    def ready(self):
        folder = f"/proc/{self.process.pid}/fd"
        events = 0
        for name in os.listdir(folder):
            try:
                events += "perf_event" in os.readlink(os.path.join(folder, name))
            except FileNotFoundError:
                pass  # closed meanwhile
        if events != self.seen:
            self.seen, self.since = events, time.monotonic()
        return events > 0 and time.monotonic() - self.since > 0.5

    def saw(self):
        return os.path.getsize(self.file) > 0

    def lost(self):
        with open(self.file, encoding="utf-8", errors="replace") as file:
            return sum(int(n) for n in re.findall(r"LOST (\d+) events", file.read()))

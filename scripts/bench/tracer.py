"""phux-trace attach, as a context: measuring when entered, ended with its report when left."""

import json
import signal
import subprocess


class Tracer:
    """Attaches to `pid`. Entered when its first interval report has come: every probe is in place."""

    def __init__(self, program, pid):
        self.command = [program, "attach", "--json", "--interval", "1s", "-d", "600s", "--budget", "off", "-p", str(pid)]
        self.lines = []

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        first = self.process.stdout.readline()
        if not first:
            raise RuntimeError(f"attach: {self.process.stderr.read().strip()}")
        self.lines.append(json.loads(first))
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        self.lines += [json.loads(line) for line in out.splitlines()]
        if self.process.returncode != 0:
            raise RuntimeError(f"attach ended with {self.process.returncode}: {err.strip()}")
        return False

    def of(self, kind):
        """Its lines of one type."""
        return [line for line in self.lines if line["type"] == kind]

    def lost(self):
        """Events lost, of all classes."""
        return sum(line["count"] for line in self.of("loss"))

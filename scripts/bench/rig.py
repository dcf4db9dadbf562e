"""A tmux of its own with a client on a PTY that this program reads and types into."""

import os
import pty
import select
import shutil
import subprocess
import tempfile
import threading
import time


class Rig:
    """Server, one session with `cat` in its pane, one attached client; all gone when left."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp()
        self.socket = os.path.join(self.dir, "tmux")
        self.env = {k: v for k, v in os.environ.items() if k != "TMUX"} | {"TERM": "xterm"}
        self.tmux("new-session", "-d", "-x", "80", "-y", "24", "exec cat")
        self.tmux("set-option", "-g", "status", "off")
        self.server = int(self.tmux("display-message", "-p", "#{pid}"))
        self.client, self.screen = pty.fork()
        if self.client == 0:
            os.execvpe("tmux", self.words("attach-session"), self.env)
        self.drain(0.5)
        return self

    def __exit__(self, *_):
        subprocess.run(self.words("kill-server"), env=self.env, stderr=subprocess.DEVNULL)
        os.close(self.screen)
        os.waitpid(self.client, 0)
        shutil.rmtree(self.dir)
        return False

    def pids(self):
        """Server, client, and the program in the pane: for tools that do not find them."""
        return [self.server, self.client, int(self.tmux("display-message", "-p", "#{pane_pid}"))]

    def words(self, *args):
        """A tmux command line for this server."""
        return ["tmux", "-S", self.socket, "-f", "/dev/null", *args]

    def tmux(self, *args):
        """Runs a tmux command; gives what it prints."""
        return subprocess.run(
            self.words(*args), env=self.env, check=True, capture_output=True, text=True
        ).stdout.strip()

    def drain(self, quiet):
        """Reads the screen until nothing has come for `quiet` seconds."""
        while select.select([self.screen], [], [], quiet)[0]:
            os.read(self.screen, 65536)

    def echoes(self, count):
        """Types `count` letters, one at a time; ns from the key until the letter shows."""
        samples = []
        for nth in range(count):
            if nth % 60 == 0:
                os.write(self.screen, b"\x15")  # ^U: an empty line again
                self.drain(0.05)
            letter = bytes([ord("a") + nth % 26])
            start = time.perf_counter_ns()
            os.write(self.screen, letter)
            while True:
                if not select.select([self.screen], [], [], 10)[0]:
                    raise RuntimeError(f"letter {nth} never showed")
                if letter in os.read(self.screen, 65536):
                    break
            samples.append(time.perf_counter_ns() - start)
            time.sleep(0.001 * (2 + nth % 5))  # no step with any timer
        return samples

    def flood(self, lines):
        """Seconds until `lines` numbered lines have gone through a pane with a client that looks."""
        stop = threading.Event()
        reader = threading.Thread(target=self._read_until, args=(stop,))
        reader.start()
        try:
            done = f"{' '.join(self.words('wait-for', '-S', 'done'))}"
            start = time.perf_counter()
            self.tmux("new-window", f"seq {lines}; {done}")
            self.tmux("wait-for", "done")
            return time.perf_counter() - start
        finally:
            stop.set()
            reader.join()

    def _read_until(self, stop):
        while not stop.is_set():
            if select.select([self.screen], [], [], 0.05)[0]:
                os.read(self.screen, 65536)

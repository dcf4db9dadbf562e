#!/usr/bin/env python3
"""The measurements of mux-compare.sh; run that."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import importlib.util  # noqa: E402

spec = importlib.util.spec_from_file_location("pty_echo", HERE / "pty-echo.py")
pty_echo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pty_echo)

COLS, ROWS = 120, 40
# Seconds at most: what else the machine does changes, and must not meet one of them alone.
KEYS_IN_TURN = 20
TICKS = os.sysconf("SC_CLK_TCK")
# A shell that starts at once and says nothing of its own.
SHELL = ["/usr/bin/env", "PS1=$ ", "/bin/sh"]


class Mux:
    """One multiplexer in a directory of its own."""

    def __init__(self, name, phux, home, relay=None):
        self.name, self.home = name, home
        self.env = {
            "PATH": os.environ["PATH"], "HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8",
            "SHELL": "/bin/sh", "XDG_RUNTIME_DIR": home, "XDG_STATE_HOME": home, "TMUX_TMPDIR": home,
            "SCREENDIR": home + "/screens", "PHUX_SOCKET": home + "/phux/phux.sock",
        }
        shell = " ".join(f"'{word}'" for word in SHELL)
        zellij = home + "/zellij.kdl"
        if name == "zellij":
            pathlib.Path(zellij).write_text(
                'pane_frames false\nshow_startup_tips false\ndefault_layout "bare"\n'
                f'layout_dir "{home}"\nsession_serialization false\n'
            )
            words = " ".join(f'"{word}"' for word in SHELL[1:])
            pathlib.Path(home + "/bare.kdl").write_text(
                f'layout {{\n pane command="{SHELL[0]}" {{\n args {words}\n }}\n}}\n'
            )
        self.new, self.attach, self.end, self.marker = {
            "phux": ([phux, "new", "-s", "b", "--", *SHELL], [phux, "attach", "b"], [phux, "kill", "b"], "server"),
            "tmux": (["tmux", "-f", "/dev/null", "new", "-s", "b", shell], ["tmux", "attach", "-t", "b"], ["tmux", "kill-server"], "tmux"),
            "screen": (["screen", "-c", "/dev/null", "-S", "b", *SHELL], ["screen", "-x", "b"], ["screen", "-S", "b", "-X", "quit"], "SCREEN"),
            # No multiplexer, so there is nothing to attach to.
            "relay": ([relay, *SHELL], None, ["true"], "--server"),
            "zellij": (["zellij", "--config", zellij, "--session", "b"], ["zellij", "--config", zellij, "attach", "b"], ["zellij", "kill-session", "b"], "--server"),
        }[name]
        os.makedirs(home + "/screens", mode=0o700, exist_ok=True)

    def start(self, command):
        return Terminal(["/usr/bin/env", "-i", *[f"{k}={v}" for k, v in self.env.items()], *command])

    def server(self):
        """The server's pid: the process of this directory that is its own session's leader and
        has no terminal on its standard input."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if not entry.name.isdigit():
                    continue
                environ = (entry / "environ").read_bytes()
                if f"HOME={self.home}\0".encode() not in environ:
                    continue
                cmdline = (entry / "cmdline").read_bytes().decode(errors="replace")
                stdin = os.readlink(entry / "fd/0")
                if self.marker in cmdline and not stdin.startswith("/dev/pts/"):
                    return int(entry.name)
            except OSError:
                continue
        return None

    def stop(self):
        subprocess.run(self.end, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10, check=False)


class Terminal(pty_echo.Terminal):
    def __init__(self, command):
        super().__init__(command, COLS, ROWS)

    def until(self, text, timeout=30.0):
        """Reads until the text shows, and says after how many milliseconds."""
        start, seen = time.perf_counter(), b""
        while text not in pty_echo.ESCAPES.sub(b"", seen):
            data = self.read(timeout - (time.perf_counter() - start))
            if not data:
                raise TimeoutError(f"waited for {text!r}, saw {pty_echo.ESCAPES.sub(b'', seen)[-200:]!r}")
            seen = (seen + data)[-20000:]
        return (time.perf_counter() - start) * 1000.0


def status(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return None


def cpu_ms(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000.0 / TICKS


def one_round(mux, options, record):
    """One multiplexer's part of a round; stops wherever another one may have its turn."""
    terminal = mux.start(mux.new)
    try:
        record("start_ms", terminal.until(b"$"))
        terminal.drain(0.2, 2.5)
        pid = mux.server()
        for i in range(options.key_samples):
            if i % KEYS_IN_TURN == 0:
                yield
            letter = pty_echo.LETTERS[i % 26 : i % 26 + 1]
            micros = terminal.key_until_shown(letter)
            record("echo_us" if micros is not None else "echo_timeout", micros or 1)
            os.write(terminal.fd, b"\x15")
            terminal.drain(pty_echo.QUIET, pty_echo.QUIET_CAP)
        yield
        for _ in range(3 if mux.attach else 0):
            second = mux.start(mux.attach)
            record("attach_ms", second.until(b"$"))
            second.drain(0.1, 1.0)
            second.close()
            terminal.drain(0.1, 1.0)
        yield
        before = cpu_ms(pid) if pid else None
        # The quotes keep the end mark out of the echo of the command itself.
        os.write(terminal.fd, f"seq {options.seq_lines}; echo do''ne\r".encode())
        record("flood_ms", terminal.until(b"done", 120.0))
        terminal.drain(0.3, 2.5)
        if pid:
            record("flood_cpu_ms", cpu_ms(pid) - before)
            record("rss_kib", status(pid, "VmRSS"))
        else:
            print(f"{mux.name}: server not found, no CPU and RSS", file=sys.stderr)
    finally:
        mux.stop()
        terminal.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phux-bin", required=True)
    parser.add_argument("--relay-bin")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--key-samples", type=int, default=200)
    parser.add_argument("--seq-lines", type=int, default=300000)
    parser.add_argument("muxes", nargs="+")
    options = parser.parse_args()
    samples = {name: {} for name in options.muxes}
    with open(options.out / "raw.jsonl", "w", encoding="utf-8") as raw, \
            open(options.out / "commands.txt", "w", encoding="utf-8") as commands:
        for number in range(options.rounds):
            # Each round begins with another one, so that none is always first.
            order = options.muxes[number % len(options.muxes):] + options.muxes[:number % len(options.muxes)]
            runs = {}
            for name in order:
                home = tempfile.mkdtemp(prefix="mux-", dir="/tmp")
                mux = Mux(name, options.phux_bin, home, options.relay_bin)
                if number == 0:
                    for command in filter(None, (mux.new, mux.attach)):
                        commands.write(f"{name}: {' '.join(command)}\n")

                def record(metric, value, name=name, number=number):
                    samples[name].setdefault(metric, []).append(value)
                    raw.write(json.dumps({"mux": name, "round": number, "metric": metric, "value": value}) + "\n")

                runs[name] = (home, record, one_round(mux, options, record))
            while runs:
                for name, (home, record, run) in list(runs.items()):
                    try:
                        next(run)
                        continue
                    except StopIteration:
                        pass
                    except (EOFError, TimeoutError, OSError) as error:
                        record("failed", str(error))
                        print(f"{name}, round {number}: {error!r}", file=sys.stderr)
                    del runs[name]
                    shutil.rmtree(home, ignore_errors=True)

    def figure(name, metric, p):
        values = sorted(samples[name].get(metric, []))
        return pty_echo.percentile(values, p) if values else None

    columns = [
        ("echo p50 us", "echo_us", 50), ("echo p90 us", "echo_us", 90), ("echo p99 us", "echo_us", 99),
        ("attach ms", "attach_ms", 50), ("flood ms", "flood_ms", 50), ("flood cpu ms", "flood_cpu_ms", 50),
        ("rss KiB", "rss_kib", 50),
    ]
    summary = {"load": os.getloadavg(), "cpus": os.cpu_count(), "options": {k: str(v) for k, v in vars(options).items()}, "muxes": {}}
    reference = "tmux" if "tmux" in samples else options.muxes[0]
    print(f"{'':8}" + "".join(f"{title:>22}" for title, _, _ in columns))
    for name in options.muxes:
        cells, row = [], {"timeouts": len(samples[name].get("echo_timeout", [])), "failed": samples[name].get("failed", [])}
        for title, metric, p in columns:
            value, base = figure(name, metric, p), figure(reference, metric, p)
            few = p == 99 and len(samples[name].get(metric, [])) < 1000
            if value is None or few:
                cells.append("-" if value is None else "(< 1000 keys)")
                continue
            row[title] = value
            ratio = value / base if base else None
            row[title + f" / {reference}"] = ratio
            cells.append(f"{value:.0f}" + (f" ({ratio:.2f}x)" if ratio else ""))
        summary["muxes"][name] = row
        print(f"{name:8}" + "".join(f"{cell:>22}" for cell in cells))
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(f"ratios to {reference}; raw samples in {options.out}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()

"""What BPF programs cost, by the kernel's own run-time statistics."""

import contextlib
import json
import subprocess

SWITCH = "/proc/sys/kernel/bpf_stats_enabled"


@contextlib.contextmanager
def statistics():
    """Switches the statistics on, and back to what they were."""
    with open(SWITCH, encoding="ascii") as file:
        before = file.read()
    with open(SWITCH, "w", encoding="ascii") as file:
        file.write("1")
    try:
        yield
    finally:
        with open(SWITCH, "w", encoding="ascii") as file:
            file.write(before)


def programs():
    """Loaded programs: id → (name, runs, ns)."""
    text = subprocess.run(
        ["bpftool", "-j", "prog", "show"], check=True, capture_output=True, text=True
    ).stdout
    return {
        p["id"]: (p.get("name", ""), p.get("run_cnt", 0), p.get("run_time_ns", 0))
        for p in json.loads(text)
    }


def cost_per_pair(before, after, mine):
    """ns in the scheduler programs `mine` (a set of ids) for each switch that they saw."""
    ns = switches = 0
    for number in mine:
        name, runs, time = after[number]
        _, runs_before, time_before = before[number]
        if "sched" not in name and "wak" not in name and "switch" not in name:
            continue
        ns += time - time_before
        if "switch" in name:
            switches += runs - runs_before
    if switches == 0:
        names = sorted(after[number][0] for number in mine)
        raise RuntimeError(f"no switch was seen by any of {names}")
    return ns / switches

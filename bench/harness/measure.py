"""What a run costs: CPU from /proc/<pid>/stat, memory from smaps_rollup, and what else the machine did.

Every function takes the folder that stands for /proc, so that tests bring their own.
"""

import os
import pathlib
import threading
import time

PROC = pathlib.Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
# A run is void beyond these (rule M6).
STEAL_LIMIT, FOREIGN_LIMIT, GENERATOR_LIMIT = 0.02, 0.05, 0.90
# Memory over agents must be a line, or its slope says nothing (LT1).
FIT_LIMIT = 0.99


def cpu_seconds(pid, proc=PROC):
    """utime + stime of all threads, and of children that were waited for."""
    text = (proc / str(pid) / "stat").read_text()
    fields = text[text.rindex(")") + 1:].split()  # A name may hold blanks and brackets.
    return sum(int(field) for field in fields[11:15]) / TICKS


def memory(pid, proc=PROC):
    """KiB: {"pss", "anonymous", "file"}."""
    found = {}
    for line in (proc / str(pid) / "smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("Pss", "Pss_Anon", "Pss_File"):
            found[name] = int(rest.split()[0])
    return {"pss": found["Pss"], "anonymous": found["Pss_Anon"], "file": found["Pss_File"]}


def threads_and_descriptors(pid, proc=PROC):
    status = (proc / str(pid) / "status").read_text()
    threads = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Threads:"))
    return threads, len(list((proc / str(pid) / "fd").iterdir()))


class Machine:
    """A look at /proc/stat and swap; the difference of two looks tells whether a run counts."""

    def __init__(self, proc=PROC):
        self.wall = time.monotonic()
        fields = [int(text) for text in (proc / "stat").read_text().split("\n")[0].split()[1:9]]
        self.total, self.idle, self.steal = sum(fields), fields[3] + fields[4], fields[7]
        swap = {line.split()[0]: int(line.split()[1])
                for line in (proc / "vmstat").read_text().splitlines() if line.startswith("pswp")}
        self.swapped = sum(swap.values())

    def since(self, before, ours):
        """Shares of the whole machine since `before`; `ours` are the CPU seconds of our processes."""
        total = max(self.total - before.total, 1)
        busy = total - (self.idle - before.idle) - (self.steal - before.steal)
        return {"steal": (self.steal - before.steal) / total,
                "foreign": max(busy - ours * TICKS, 0) / total,
                "swapped": self.swapped - before.swapped}


def void_reason(row):
    """Why a run does not count; empty when it does."""
    if row.get("steal", 0) > STEAL_LIMIT:
        return f"steal time {row['steal']:.1%}"
    if row.get("foreign", 0) > FOREIGN_LIMIT:
        return f"others used {row['foreign']:.1%} of the machine"
    if row.get("swapped", 0) > 0:
        return "swap was used"
    if row.get("generator_share", 0) > GENERATOR_LIMIT:
        return f"the generator used {row['generator_share']:.0%} of its core"
    if row.get("r_squared", 1) < FIT_LIMIT:
        return f"memory is no line over agents: r squared is {row['r_squared']:.3f}"
    return row.get("failed", "")


class Peak:
    """Samples PSS every 200 ms on a thread of its own; the largest value counts."""

    def __init__(self, pid, every=0.2):
        self.largest = memory(pid)
        self._pid, self._every = pid, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(self._every):
            try:
                now = memory(self._pid)
            except (OSError, KeyError):
                return
            if now["pss"] > self.largest["pss"]:
                self.largest = now

    def end(self):
        self._stop.set()
        self._thread.join()
        return self.largest

"""Programs of a benchmark: pinned to a core, spoken to by lines, ended by their own process id."""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

from bench.harness import measure

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER_CORE, LOAD_CORE = 0, 1  # Rule M5.
_PR_SET_PDEATHSIG = 1


def _prepare(cores):
    def run():
        os.sched_setaffinity(0, cores)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return run


class Child:
    """One process. Leaving its `with` block ends it."""

    def __init__(self, command, cores, environment=None, log=None, pipe=False):
        self.name = pathlib.Path(command[0]).name
        self.log = pathlib.Path(log) if log else None
        output = open(self.log, "ab") if self.log else subprocess.DEVNULL
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipe else output, stderr=output, text=pipe,
            env={**os.environ, **(environment or {})}, preexec_fn=_prepare(cores))
        if self.log:
            output.close()

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process.poll() is None

    def cpu(self):
        return measure.cpu_seconds(self.pid)

    def memory(self):
        return measure.memory(self.pid)

    def trouble(self):
        tail = self.log.read_text(errors="replace")[-2000:] if self.log and self.log.exists() else ""
        return f"{self.name} has ended with {self.process.poll()}: {tail}"

    def wait_for_file(self, path, limit=120):
        """The JSON of a file that the program writes when it is ready."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if not self.running():
                raise RuntimeError(self.trouble())
            if pathlib.Path(path).exists():
                return json.loads(pathlib.Path(path).read_text())
            time.sleep(0.02)
        raise RuntimeError(f"{self.name} was not ready within {limit} s")

    def end(self):
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        if self.running():
            self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Generator(Child):
    """The load generator: one command, one JSON answer."""

    def __init__(self, program, flags, log):
        super().__init__([program, *flags], {LOAD_CORE}, log=log, pipe=True)

    def command(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.process.wait(10)
            raise RuntimeError(self.trouble())
        return json.loads(answer)

    def must(self, line):
        """A command of the set-up: anything but full success ends the run."""
        answer = self.command(line)
        if answer["error"] or answer["bad"]:
            raise RuntimeError(f"{line}: {answer}")
        return answer


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def post(url):
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=10) as answer:
        return answer.read().decode()


def metric(text, name):
    """The sum over all series of one metric."""
    total = 0.0
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if series.partition("{")[0] == name:
            total += float(value)
    return total


def stripped(program, folder=ROOT / "build" / "bench-bin"):
    """A copy without symbols, as packages ship it and as the Go programs are built (tools/go_program)."""
    program, copy = pathlib.Path(program), pathlib.Path(folder) / pathlib.Path(program).name
    if not copy.exists() or copy.stat().st_mtime < program.stat().st_mtime:
        copy.parent.mkdir(parents=True, exist_ok=True)
        fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
        subprocess.run(["strip", "-o", str(fresh), str(program)], check=True)
        fresh.rename(copy)
    return copy


def go_program(module, program):
    done = subprocess.run([ROOT / "tools/go_program", module, program], stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(done.stdout.strip())

"""Runs sides alternately and writes one JSON line per run (rules M1, M2, M6, M12)."""

import functools
import json
import pathlib
import platform
import subprocess
import sys
import time

from bench.harness import measure
from bench.harness.processes import ROOT


def abba(sides, pairs, warm_up=True):
    """A B B A A B B A ...: (pair, side), `pairs` of each side, after one warm-up of each (pair -1)."""
    order = [(-1, side) for side in sides] if warm_up else []
    for pair in range(pairs):
        order += [(pair, side) for side in (sides if pair % 2 == 0 else list(reversed(sides)))]
    return order


LIBRARIES = {"nghttp2": "libnghttp2", "OpenSSL": "openssl", "protobuf": "protobuf", "SQLite": "sqlite3"}


def machine_facts():
    """What figures depend on (rule M1): the machine, the compiler, the libraries that both were built with."""
    def tell(*command):
        try:
            return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  check=False).stdout.strip().split("\n")[0]
        except OSError:
            return ""
    cpu = next((line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    libraries = {name: tell("pkg-config", "--modversion", package) for name, package in LIBRARIES.items()}
    return {"kernel": platform.release(), "cpu": cpu, "compiler": tell("g++", "--version"), **libraries,
            "go": tell("go", "version"), "commit": tell("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD")}


@functools.cache
def machine_probe(program=ROOT / "build/release/load-bin/machine_probe"):
    """What the machine can do at best (load.md 2); empty where the probe is not built. Measured once per process."""
    if not program.exists():
        return {}
    return json.loads(subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout)


class Window:
    """A measured window: CPU of the server, of the generator, and the machine around them."""

    def __init__(self, server, others):
        self.server, self.others = server, others

    def __enter__(self):
        self.before = measure.Machine()
        self.server_cpu, self.other_cpu = self.server.cpu(), [one.cpu() for one in self.others]
        self.peak = measure.Peak(self.server.pid)
        return self

    def __exit__(self, *failure):
        largest = self.peak.end()
        after = measure.Machine()
        cost = self.server.cpu() - self.server_cpu if self.server.running() else 0.0
        loads = [one.cpu() - was if one.running() else 0.0 for one, was in zip(self.others, self.other_cpu)]
        wall = after.wall - self.before.wall
        self.row = {"wall_s": wall, "server_cpu_s": cost, "load_cpu_s": sum(loads),
                    "generator_share": loads[0] / wall if loads else 0.0,
                    "peak_pss_kib": largest["pss"], "peak_anonymous_kib": largest["anonymous"],
                    **after.since(self.before, cost + sum(loads))}


class Runner:
    """Runs `scenario(side, seed) -> row` for every side in turn. A run that fails is a void one."""

    def __init__(self, bench_id, sides, pairs, output, parameters, warm_up=True):
        self.bench_id, self.sides, self.pairs = bench_id, sides, pairs
        self.output, self.parameters, self.warm_up = output, parameters, warm_up

    def run(self, scenario):
        facts, probe = machine_facts(), machine_probe()
        rows = []
        for pair, side in abba(list(self.sides), self.pairs, self.warm_up):
            began = time.time()
            try:
                row = scenario(self.sides[side], seed=pair + 2)
            except (RuntimeError, OSError) as error:
                row = {"failed": str(error)}
            line = {"id": self.bench_id, "side": side, "pair": pair, "warm_up": pair < 0, "seed": pair + 2,
                    "at": int(began), "parameters": self.parameters, **row, "machine": facts, "machine_probe": probe}
            line["void"] = measure.void_reason(line)
            self.output.write(json.dumps(line) + "\n")
            self.output.flush()
            print(f"{self.bench_id}: pair {pair:>3} {side:<12} "
                  f"{'void: ' + line['void'][:160] if line['void'] else 'counts'}", file=sys.stderr)
            rows.append(line)
        return rows

"""The scenarios of load.md, with those that need only a server, the generator and the object store's stub."""

import json
import pathlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.harness import programs, sides, statistics
from bench.harness.processes import LOAD_CORE, ROOT, Child, Generator, get, go_program, metric, post
from bench.harness.runner import Window


@dataclass
class Scenario:
    id: str
    run: Callable  # (side, options, seed) -> row
    find_sides: Callable
    options: dict  # By mode.
    pairs: dict = field(default_factory=dict)  # By mode; the runner's own where nothing is said.


class World:
    """One run's processes: stub, server, generator; all gone when the `with` block ends."""

    def __init__(self, side, options, seed):
        self.side, self.options, self.seed = side, options, seed

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="nstance-bench-")
        path = pathlib.Path(self.folder.name)
        self.children = []
        try:
            flags = list(self.options.get("server_flags", []))
            self.store = None
            if self.options.get("store_ms") is not None:
                self.stub = self._add(Child(
                    [go_program("bench/stubs", "object-store-stub"), "-addresses-file", path / "store.json",
                     "-seed", self.seed], {LOAD_CORE}, {"GOMAXPROCS": "1"}, path / "store.log"))
                self.store = "http://" + self.stub.wait_for_file(path / "store.json")["store"]
                flags += ["-store", self.store + "/bench"]
            self.server, self.addresses = self.side.start(path / "server", flags)
            self.children.append(self.server)
            if self.store:  # Making the records was not to be measured, nor waited for.
                post(f"{self.store}/-/latency?is={self.options['store_ms']}ms")
                post(self.store + "/-/reset")
            self.generator = self._add(Generator(generator_program(), [
                "--ca", path / "server/ca.crt", "--tokens", path / "server/tokens.jsonl",
                "--operator-tokens", path / "server/operator-tokens.jsonl", "--cluster", "bench",
                "--registration", self.addresses["registration"], "--agent", self.addresses["agent"],
                "--operator", self.addresses["operator"], "--sources", "64", "--seed", str(self.seed)],
                path / "generator.log"))
            return self
        except BaseException:
            self.__exit__()
            raise

    def _add(self, child):
        self.children.append(child)
        return child

    def window(self):
        return Window(self.server, [child for child in reversed(self.children) if child is not self.server])

    def metrics(self):
        return get(f"http://{self.addresses['health']}/metrics")

    def store_counts(self):
        return json.loads(get(self.store + "/-/counters")) if self.store else {}

    def __exit__(self, *_):
        for child in reversed(self.children):
            child.end()
        self.folder.cleanup()


def generator_program():
    for build in ("release", "dev"):
        program = ROOT / "build" / build / "load-bin" / "nstance_generator"
        if program.exists():
            return program
    raise RuntimeError("nstance_generator is not built")


def with_latency(row, answer):
    latency = answer["latency"]
    return {**row, "p50_us": latency["p50_us"], "p99_us": latency["p99_us"], "max_us": latency["max_us"],
            "latency": latency, "generator_behind_us": answer["behind_us"]}


def per_operation(row, operations):
    return {**row, "operations": operations, "operations_per_s": operations / row["wall_s"],
            "cpu_s_per_1000": 1000 * row["server_cpu_s"] / max(operations, 1)}


def idle_agents(side, options, seed):
    """LT1: PSS over the number of connected agents."""
    steps, rate = options["steps"], options["rate"]
    with World(side, {**options, "server_flags": ["-instances", str(steps[-1])]}, seed) as world:
        points = [(0, world.server.memory()["pss"])]
        for before, step in zip([0, *steps], steps):
            world.generator.must(f"join {step - before} {rate}")
            world.generator.must(f"connect {rate}")
            world.generator.must(f"settle {options['quiet_s']}")
            points.append((step, world.server.memory()["pss"]))
        answer = world.generator.must("settle 0")
        rise, base, fit = statistics.slope(points)
        row = {"points": points, "pss_kib_per_agent": rise, "intercept_kib": base, "r_squared": fit,
               "quiet_pss_kib": points[-1][1], "operations": steps[-1]}
        if answer["lost"] or answer["up"] != steps[-1]:
            row["failed"] = f"streams were lost: {answer}"
        return row


def health(side, options, seed):
    """LT2: reports by a fixed schedule; every report must arrive. The memory meanwhile is LT1's "under load"."""
    agents = options["agents"]
    with World(side, {**options, "server_flags": ["-instances", str(agents)]}, seed) as world:
        empty = world.server.memory()
        world.generator.must(f"join {agents} {options['join_rate']}")
        world.generator.must(f"connect {options['join_rate']}")
        world.generator.must(f"report {max(agents // 2, 1)} 2 0")  # Every agent once: buffers have their size.
        quiet = world.server.memory()
        arrived = metric(world.metrics(), "nstance_health_reports_total")
        with world.window() as window:
            answer = world.generator.command(f"report {options['rate']} {options['seconds']} {options['probe_every']}")
        arrived = metric(world.metrics(), "nstance_health_reports_total") - arrived
        row = with_latency(per_operation(window.row, int(arrived)), answer)
        row["quiet_pss_kib"] = quiet["pss"]
        row["loaded_kib_per_agent"] = (row["peak_pss_kib"] - empty["pss"]) / agents
        # What the rate of the target would take: modes with fewer agents report more slowly.
        row["cores_at_10000"] = 10 * row["cpu_s_per_1000"]
        if arrived != answer["good"] or answer["bad"] or answer["lost"]:
            row["failed"] = f"{answer['good']} reports were sent, {int(arrived)} arrived; {answer}"
        return row


def join(side, options, seed):
    """LT3: joins by a fixed schedule; one CAS and one certificate log entry each."""
    joins = options["rate"] * options["seconds"]
    flags = ["-instances", str(joins), "-per-tenant", "10"]
    with World(side, {**options, "server_flags": flags}, seed) as world:
        with world.window() as window:
            answer = world.generator.command(f"join {joins} {options['rate']}")
        counts = world.store_counts()
        row = with_latency(per_operation(window.row, answer["good"]), answer)
        row["requests"] = counts
        row["puts_per_operation"] = sum(count for name, count in counts.items()
                                        if name.startswith("PUT ")) / max(answer["good"], 1)
        if answer["bad"] or answer["error"]:
            row["failed"] = f"a join failed: {answer}"
        return row


def tenants(options):
    return ",".join(f"u{number}" for number in range(options["tenants"]))


def upsert(side, options, seed):
    """LT8: every writer waits for its answer."""
    with World(side, {**options, "server_flags": ["-tenants", tenants(options)]}, seed) as world:
        world.generator.must(f"operators {options['writers']}")
        post(world.store + "/-/reset")
        with world.window() as window:
            answer = world.generator.command(f"upsert {options['seconds']}")
        counts = world.store_counts()
        row = with_latency(per_operation(window.row, answer["good"]), answer)
        row["requests"], row["refused"] = counts, answer["bad"]
        row["puts_per_operation"] = counts.get("PUT groups 200", 0) / max(answer["good"], 1)
        if answer["error"] and not answer["bad"]:
            row["failed"] = answer["error"]  # A lost update.
        return row


def watch(side, options, seed):
    """LT9: delivery of events to all operators of a tenant."""
    with World(side, {**options, "server_flags": ["-tenants", tenants(options)]}, seed) as world:
        world.generator.must(f"operators {options['writers']}")
        world.generator.must("upsert 1")  # Every operator's group is there.
        with world.window() as window:
            answer = world.generator.command(f"watch {options['rate']} {options['seconds']}")
        delivered = answer["latency"]["count"]
        row = with_latency(per_operation(window.row, delivered), answer)
        if answer["bad"] or answer["error"]:
            row["failed"] = f"an event was not made: {answer}"
        return row


def start(side, options, seed):
    """LT11, empty: process start until it serves."""
    with tempfile.TemporaryDirectory(prefix="nstance-bench-") as folder:
        began = time.monotonic()
        server, _ = side.start(pathlib.Path(folder) / "server", [])
        wall = time.monotonic() - began
        with server:
            time.sleep(options["quiet_s"])
            now = server.memory()
            return {"wall_s": wall, "server_cpu_s": server.cpu(), "quiet_pss_kib": now["pss"], "operations": 1}


# By name: id, scenario, the sides, and the options of each mode. `full` is load.md's, and takes hours; `normal` is
# for a machine that is free for half an hour; `quick` proves that everything works.
SCENARIOS = {
    "idle_agents": Scenario("LT1", idle_agents, sides.find, {
        "full": {"steps": [5000, 10000, 15000], "rate": 150, "quiet_s": 60},
        "normal": {"steps": [1000, 2000, 3000], "rate": 150, "quiet_s": 5},
        "quick": {"steps": [50, 100, 150], "rate": 100, "quiet_s": 1}}),
    "health": Scenario("LT2", health, sides.find, {
        "full": {"agents": 15000, "rate": 10000, "seconds": 60, "probe_every": 100, "join_rate": 150},
        "normal": {"agents": 3000, "rate": 2400, "seconds": 30, "probe_every": 24, "join_rate": 150},
        "quick": {"agents": 100, "rate": 80, "seconds": 5, "probe_every": 5, "join_rate": 100}}),
    "join": Scenario("LT3", join, sides.find, {
        "full": {"rate": 200, "seconds": 30, "store_ms": 20},
        "normal": {"rate": 200, "seconds": 20, "store_ms": 20},
        "quick": {"rate": 40, "seconds": 5, "store_ms": 20}}),
    "upsert": Scenario("LT8", upsert, sides.find, {
        "full": {"tenants": 100, "writers": 10, "seconds": 30, "store_ms": 50},
        "normal": {"tenants": 20, "writers": 10, "seconds": 20, "store_ms": 50},
        "quick": {"tenants": 3, "writers": 2, "seconds": 5, "store_ms": 20}}),
    "watch": Scenario("LT9", watch, sides.find, {
        "full": {"tenants": 100, "writers": 10, "rate": 100, "seconds": 30, "store_ms": 0},
        "normal": {"tenants": 20, "writers": 10, "rate": 50, "seconds": 20, "store_ms": 0},
        "quick": {"tenants": 3, "writers": 2, "rate": 20, "seconds": 5, "store_ms": 0}}),
    "start": Scenario("LT11", start, sides.find, {
        "full": {"quiet_s": 30}, "normal": {"quiet_s": 5}, "quick": {"quiet_s": 1}}),
    "agent": Scenario("LT12", programs.agent, sides.find_agents, {
        "full": {"report_interval": "10s", "settle_s": 30, "seconds": 600},
        "normal": {"report_interval": "10s", "settle_s": 10, "seconds": 30},
        "quick": {"report_interval": "2s", "settle_s": 3, "seconds": 3}}),
    "failover": Scenario("LT5", programs.failover, sides.find_ours, {
        "full": {"servers": 2, "kills": 20, "store_ms": 50, "pause_s": 1.0},
        "normal": {"servers": 2, "kills": 10, "store_ms": 50, "pause_s": 1.0},
        "quick": {"servers": 2, "kills": 1, "store_ms": 50, "pause_s": 0.0}}, pairs={"full": 1, "normal": 1}),
    "replace": Scenario("replace", programs.replace, sides.find_ours, {
        "full": {"instances": 10, "kills": 200, "pause_s": 0.2},
        "normal": {"instances": 10, "kills": 100, "pause_s": 0.1},
        "quick": {"instances": 5, "kills": 10, "pause_s": 0.1}}, pairs={"full": 1, "normal": 1}),
}

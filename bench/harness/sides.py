"""The sides of a comparison. A side is a server program with the flags of bench/baseline_go's baseline-server:

    PROGRAM -dir DIR -addresses-file F [-store URL] [-instances N] [-per-tenant N] [-tenants a,b] [-interval D]

It makes the records and tokens of a run itself (tokens.jsonl, operator-tokens.jsonl, ca.crt in DIR), tells its
addresses (registration, agent, operator, health) when it serves, and counts in /metrics. Our own side is
`nstance_bench_server`, the server with a provider in memory wired in; it is found in the release build.
"""

import pathlib
from dataclasses import dataclass, field

from bench.harness import shard
from bench.harness.processes import ROOT, SERVER_CORE, Child, go_program, stripped


@dataclass
class Side:
    name: str
    program: pathlib.Path
    environment: dict = field(default_factory=dict)
    flags: tuple = ()

    def start(self, folder, flags, cores=frozenset({SERVER_CORE})):
        """A running server and its addresses."""
        folder.mkdir(parents=True, exist_ok=True)
        environment = {"GOMAXPROCS": str(len(cores)), **self.environment}
        child = Child([self.program, "-dir", folder, "-addresses-file", folder / "addresses.json", *self.flags,
                       *flags],
                      cores, environment, folder / "server.log")
        try:
            return child, child.wait_for_file(folder / "addresses.json")
        except RuntimeError:
            child.end()
            raise


def tuned(side, quiet_kib):
    """Go with a heap limit of 1.2 x its quiet size (load.md 5)."""
    return Side(f"{side.name}-tuned", side.program,
                {"GOGC": "off", "GOMEMLIMIT": f"{int(quiet_kib * 1.2)}KiB"}, side.flags)


# Our server writes a report behind into SQLite when it says something new, else once a minute; the baseline every
# second. Without its cache the baseline does less than we do, so that no ratio comes from that difference.
GO_FLAGS = ("-sqlite=false",)


def find(build=ROOT / "build" / "release"):
    """All servers that can be run here, by name."""
    sides = {}
    ours = build / "load-bin" / "nstance_bench_server"
    if ours.exists():
        sides["ours"] = Side("ours", ours)
    sides["go"] = Side("go", go_program("bench/baseline_go", "baseline-server"), flags=GO_FLAGS)
    sides["go-gogc50"] = Side("go-gogc50", sides["go"].program, {"GOGC": "50"}, GO_FLAGS)
    return sides


def find_agents():
    """The agents, both without symbols: the size of the file is compared."""
    sides = {}
    if shard.AGENT.exists():
        sides["ours"] = Side("ours", stripped(shard.AGENT))
    sides["go"] = Side("go", go_program("bench/baseline_go", "baseline-agent"))
    sides["go-gogc50"] = Side("go-gogc50", sides["go"].program, {"GOGC": "50"})
    return sides


def find_ours():
    """Our programs alone: the baseline neither plans nor fails over."""
    return {"ours": Side("ours", shard.SERVER)} if shard.SERVER.exists() and shard.AGENT.exists() else {}

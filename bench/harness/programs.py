"""The scenarios of load.md that need whole programs: the agent's footprint, replacement, fail-over."""

import json
import os
import pathlib
import statistics
import tempfile
import time
import urllib.request

from bench.harness import measure, shard
from bench.harness.processes import LOAD_CORE, SERVER_CORE, Child, get, go_program, metric
from bench.harness.runner import Window


def percentiles(seconds):
    """The columns of a report for a list of latencies."""
    ordered = sorted(seconds)
    at = lambda share: ordered[min(int(share * len(ordered)), len(ordered) - 1)]  # noqa: E731
    return {"operations": len(ordered), "p50_us": statistics.median(ordered) * 1e6, "p99_us": at(0.99) * 1e6,
            "max_us": ordered[-1] * 1e6, "latencies_us": [round(one * 1e6) for one in seconds]}


class Watch:
    """What the machine did meanwhile, for the void checks. CPU of agents counts as foreign: it is little."""

    def __init__(self, children):
        self.children, self.gone = children, 0.0
        self.before, self.began, self.used = measure.Machine(), time.monotonic(), self._used()

    def _used(self):
        return sum(child.cpu() for child in self.children if child.running()) + sum(os.times()[:2])

    def leaves(self, child):
        """A process is about to be killed; what it has used stays counted."""
        self.gone += child.cpu()

    def row(self):
        after = measure.Machine()
        return {"wall_s": time.monotonic() - self.began, **after.since(self.before, self.gone + self._used() - self.used)}


def agent(side, options, seed):
    """LT12: an agent with its streams open that reports now and then. Both sides join the same server."""
    with tempfile.TemporaryDirectory(prefix="nstance-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "server").mkdir()
        server = Child([go_program("bench/baseline_go", "baseline-server"), "-dir", folder / "server",
                        "-addresses-file", folder / "server/addresses.json", "-instances", "1"], {LOAD_CORE},
                       {"GOMAXPROCS": "1"}, folder / "server.log")
        with server:
            addresses = server.wait_for_file(folder / "server/addresses.json")
            line = json.loads((folder / "server/tokens.jsonl").read_text().splitlines()[0])
            with _agent_process(side, folder, addresses, line, options) as child:
                page = f"http://{addresses['health']}/metrics"
                shard.wait_until(lambda: metric(get(page), "nstance_health_reports_total") >= 1 or not child.running(),
                                 "a report of the agent")
                if not child.running():
                    raise RuntimeError(child.trouble())
                time.sleep(options["settle_s"])
                with Window(child, [server]) as window:
                    time.sleep(options["seconds"])
                now = child.memory()
                threads, descriptors = measure.threads_and_descriptors(child.pid)
                return {**window.row, "operations": 1, "generator_share": 0, "quiet_pss_kib": now["pss"],
                        "anonymous_kib": now["anonymous"], "program_kib": side.program.stat().st_size / 1024,
                        "cpu_percent": 100 * window.row["server_cpu_s"] / window.row["wall_s"], "threads": threads,
                        "descriptors": descriptors}


def _agent_process(side, folder, addresses, line, options):
    home = folder / "agent"
    for name in ("identity", "keys", "recv"):
        (home / name).mkdir(parents=True)
    (home / "identity/ca.crt").write_bytes((folder / "server/ca.crt").read_bytes())
    (home / "identity/nonce.jwt").write_text(line["token"])
    environment = {
        "NSTANCE_SERVER_REGISTRATION_ADDR": addresses["registration"], "NSTANCE_SERVER_AGENT_ADDR": addresses["agent"],
        "NSTANCE_INSTANCE_ID": line["instance_id"], "NSTANCE_IDENTITY_DIR": str(home / "identity"),
        "NSTANCE_KEYS_DIR": str(home / "keys"), "NSTANCE_RECV_DIR": str(home / "recv"), "NSTANCE_PROVIDER": "none",
        "NSTANCE_INSTANCE_IPV4": "127.0.0.1", "NSTANCE_REPORT_INTERVAL": options["report_interval"], "GOMAXPROCS": "1",
        **side.environment}
    return Child([side.program], {SERVER_CORE}, environment, folder / "agent.log")


def replace(_side, options, seed):
    """From an instance's death to the provider's creation of its replacement (design promise 3)."""
    with tempfile.TemporaryDirectory(prefix="nstance-bench-") as name:
        folder = pathlib.Path(name)
        bucket, root = folder / "bucket", folder / "instances"
        (bucket / "config").mkdir(parents=True)
        root.mkdir()
        (bucket / f"config/{shard.NAME}.jsonc").write_text(json.dumps(shard.configuration(root, options["instances"])))
        server = shard.Server(folder, "s0", ["--storage", "file", "--bucket", bucket], {})
        instances = shard.Instances(root, bucket)
        server.start()
        try:
            with server.child:
                return _replacements(server.child, instances, options)
        finally:
            instances.end()


def _settled(instances, options, without):
    """The members of the group, when all are there and the one that died is not."""
    now = instances.registered()
    return now if len(now) == options["instances"] and without not in now else None


def _replacements(server, instances, options):
    latencies, victim = [], None
    watch = Watch([server])
    created = shard.NewEntries(instances.root)
    try:
        for number in range(options["kills"]):
            members = shard.wait_until(
                lambda: _settled(instances, options, victim) or not server.running(), "the group is whole")
            if not server.running():
                raise RuntimeError(server.trouble())
            members = sorted(members)
            victim = members[number % len(members)]
            time.sleep(options["pause_s"])
            processes = instances.processes(victim)
            if not processes:
                raise RuntimeError(f"nothing runs on {victim}")
            created.drain()
            killed = time.monotonic()
            for process in processes:
                shard.kill(process)
            seen = created.wait(30)
            if seen is None:
                raise RuntimeError(f"nothing was created within 30 s after the death of {victim}")
            latencies.append(seen - killed)
    finally:
        created.close()
    return {**percentiles(latencies), **watch.row()}


def failover(_side, options, seed):
    """LT5, real kills: from the leader's death until a standby acts, with the store at `store_ms`."""
    with tempfile.TemporaryDirectory(prefix="nstance-bench-") as name:
        folder = pathlib.Path(name)
        (folder / "instances").mkdir()
        stub = Child([go_program("bench/stubs", "object-store-stub"), "-addresses-file", folder / "store.json",
                      "-latency", f"{options['store_ms']}ms", "-seed", seed], {LOAD_CORE}, {"GOMAXPROCS": "1"},
                     folder / "store.log")
        with stub:
            store = "http://" + stub.wait_for_file(folder / "store.json")["store"]
            text = json.dumps(shard.configuration(folder / "instances", 0)).encode()
            urllib.request.urlopen(urllib.request.Request(
                f"{store}/bench/config/{shard.NAME}.jsonc", data=text, method="PUT"), timeout=10).close()
            environment = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret",
                           "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": store}
            servers = [shard.Server(folder, f"s{number}", ["--storage", "s3", "--bucket", "bench"], environment)
                       for number in range(options["servers"])]
            for server in servers:
                server.start()
            try:
                return _kills(servers, stub, options)
            finally:
                for server in servers:
                    server.child.end()


def _leader(servers, above):
    for server in servers:
        epoch = server.epoch()
        if epoch > above:
            return server, epoch
    return None


def _kills(servers, stub, options):
    latencies = []
    watch = Watch([stub])
    leader, epoch = shard.wait_until(lambda: _leader(servers, 0), "a first leader")
    for number in range(options["kills"]):
        for server in servers:
            shard.wait_until(lambda one=server: one.page("/readyz")[0] == 200, "every server is ready")
        # Not in step with the renewals of the lease.
        time.sleep(options["pause_s"] + 2 * number / max(options["kills"], 1))
        others = [server for server in servers if server is not leader]
        watch.leaves(leader.child)
        killed = time.monotonic()
        leader.kill()
        old = leader
        leader, epoch = shard.wait_until(lambda: _leader(others, epoch), "the next leader", every=0.005)
        latencies.append(time.monotonic() - killed)
        old.start()
    return {**percentiles(latencies), **watch.row()}

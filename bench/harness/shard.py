"""A shard of real processes: nstance-server with its standbys, the provider `local`, agents on every instance.

For what only whole programs show: how long a fail-over and a replacement take.
"""

import ctypes
import json
import os
import pathlib
import select
import signal
import socket
import struct
import time
import urllib.error
import urllib.request

from bench.harness.processes import LOAD_CORE, ROOT, SERVER_CORE, Child

SERVER = ROOT / "build" / "bin" / "nstance-server"
AGENT = ROOT / "build" / "bin" / "nstance-agent"
NAME = "a"
_KEY = "0123456789abcdef0123456789abcdef"  # Not a secret: it seals what lives as long as a run.


def configuration(instances_root, size, server=None):
    """The configuration of the shard: one group, whose instances run the agent."""
    command = "\n".join([
        "#!/bin/sh", "set -eu", "umask 077", "mkdir -p identity keys recv",
        "printf '%s' '{{ .Nonce }}' > identity/nonce.jwt", "printf '%s' '{{ .Cluster.CACert }}' > identity/ca.crt",
        "export NSTANCE_INSTANCE_ID='{{ .Instance.ID }}'",
        "export NSTANCE_SERVER_REGISTRATION_ADDR='{{ .Server.RegistrationAddr }}'",
        "export NSTANCE_SERVER_AGENT_ADDR='{{ .Server.AgentAddr }}'",
        "export NSTANCE_IDENTITY_DIR=$PWD/identity NSTANCE_KEYS_DIR=$PWD/keys NSTANCE_RECV_DIR=$PWD/recv",
        "export NSTANCE_PROVIDER=local NSTANCE_SPOT_POLL_INTERVAL=0 NSTANCE_INSTANCE_IPV4=127.0.0.1",
        f"exec taskset -c {LOAD_CORE} '{AGENT}'"])
    any_port = "127.0.0.1:0"
    off = {"window": "0s"}
    return {
        "server": {
            "cluster_id": "bench", "shard": NAME,
            "provider": {"kind": "local", "options": {"root": str(instances_root), "kill_grace": "1s"}},
            "bind": {f"{name}_addr": any_port for name in ("registration", "operator", "agent", "health", "election")},
            "subnet_pools": {"default": ["loopback"]},
            "secrets": {"provider": "object-storage",
                        "encryption_key": {"provider": "env", "source": "NSTANCE_ENCRYPTION_KEY"}},
            "deletion_brake": {"unordered": off, "ordered": off},
            "error_exit_jitter": {"min_delay": "0s", "max_delay": "0s"}, **(server or {})},
        "defaults": {"userdata": {"source": "inline", "encoding": "plain", "content": command.split("\n")}},
        "templates": {"worker": {"kind": "wrk", "arch": "amd64", "instance_type": "local.small",
                                 "subnet_pool": "default"}},
        "groups": {"default": {"workers": {"template": "worker", "size": size}}}}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One nstance-server, started again at will under the same health address."""

    def __init__(self, folder, name, storage, environment):
        self.folder, self.name, self.storage = folder / name, name, storage
        self.environment = {**environment, "NSTANCE_ENCRYPTION_KEY": _KEY}
        self.health = f"127.0.0.1:{free_port()}"
        self.child = None
        (self.folder / "cache").mkdir(parents=True)

    def start(self):
        self.child = Child([SERVER, "--id", self.name, "--shard", NAME, *self.storage, "--cachedir",
                            self.folder / "cache", "--bind", f"health={self.health}"], {SERVER_CORE},
                           self.environment, self.folder / "server.log")

    def kill(self):
        self.child.process.kill()
        self.child.process.wait()

    def page(self, path):
        """The status and the text of a page of its health listener; 0 when it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{self.health}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def epoch(self):
        """Of its leadership; 0 when it does not act as the leader."""
        status, text = self.page("/leader/health")
        return json.loads(text)["epoch"] if status == 200 else 0


def wait_until(condition, what, limit=120, every=0.01):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(every)
    raise RuntimeError(f"{what}: not within {limit} s")


def processes_below(folder):
    """Ids of the processes that run in a folder or below it."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            here = os.readlink(entry / "cwd")
        except OSError:
            continue
        if (here + "/").startswith(str(folder) + "/"):
            found.append(int(entry.name))
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Instances:
    """The instances of the local provider, as their folders and records tell; gone with the `with` block."""

    def __init__(self, root, bucket):
        self.root, self.bucket = root, bucket

    def registered(self):
        found = set()
        for path in (self.bucket / "instance" / NAME).glob("*.json"):
            try:
                record = json.loads(path.read_text())
            except (OSError, ValueError):
                continue  # Being replaced.
            if record["phase"] == "registered":
                found.add(record["instance_id"])
        return found

    def processes(self, instance):
        """What runs on an instance: its agent. The keeper, which stands for the machine, is not among them."""
        return processes_below(self.root / instance / "work")

    def end(self):
        """Ends what runs below the root: keepers and agents outlive their server on purpose."""
        for _ in range(100):
            left = processes_below(self.root)
            for pid in left:
                kill(pid)
            if not left:
                return
            time.sleep(0.05)


class NewEntries:
    """When something new appears in a folder, by inotify."""

    _CREATE, _MOVED_TO = 0x100, 0x80

    def __init__(self, folder):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._libc.inotify_add_watch(self._descriptor, str(folder).encode(), self._CREATE | self._MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def drain(self):
        while self._read():
            pass

    def wait(self, limit):
        """The time at which the next entry was seen, or None."""
        end = time.monotonic() + limit
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._descriptor], [], [], left)[0]:
                break
            now = time.monotonic()
            if self._read():
                return now
        return None

    def _read(self):
        try:
            return len(os.read(self._descriptor, 65536)) >= struct.calcsize("iIII")
        except BlockingIOError:
            return False

    def close(self):
        os.close(self._descriptor)

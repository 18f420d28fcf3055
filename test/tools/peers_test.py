#!/usr/bin/env python3
"""Tests of tools/peers.

A fake `go` stands in PATH and "builds" by writing a small script, so that the rules of the cache
(complete or absent, instant the second time, skipped without go) are tested without a network.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "peers"
FAKE_GO = """#!/bin/sh
case "$1" in
  env) case "$2" in GOVERSION) echo go{version};; GOROOT) echo /opt/go;; esac;;
  install)
    for last; do :; done
    echo "$last" >> {folder}/built
    mkdir -p "$GOBIN"
    name="${{last%@*}}"
    {trouble}
    printf '#!/bin/sh\\n' > "$GOBIN/${{name##*/}}"
    chmod +x "$GOBIN/${{name##*/}}";;
esac
"""


class Peers(unittest.TestCase):

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.cache = self.folder / "cache with blank"
        # Only the tools that the script needs, so that the machine's own go is out of sight.
        (self.folder / "bin").mkdir()
        for tool in ("bash env awk paste mkdir mktemp chmod mv rm cat cut tail sed sort head sleep "
                     "find grep xargs flock readlink dirname").split():
            path = next(p for p in (f"/usr/bin/{tool}", f"/bin/{tool}") if os.path.exists(p))
            (self.folder / "bin" / tool).symlink_to(path)

    def fake_go(self, version="1.26.0", trouble=":"):
        path = self.folder / "bin" / "go"
        path.write_text(FAKE_GO.format(version=version, trouble=trouble, folder=self.folder))
        path.chmod(0o755)

    def peers(self, *arguments, ci=""):
        environment = {"PATH": str(self.folder / "bin"), "NSTANCE_PEERS_DIR": str(self.cache),
                       "CI": ci}
        return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, env=environment)

    def built(self):
        path = self.folder / "built"
        return path.read_text().splitlines() if path.exists() else []

    def test_a_peer_is_built_at_its_exact_version_once(self):
        self.fake_go()
        self.assertEqual(self.peers("versitygw").returncode, 0)
        self.assertEqual(self.peers("versitygw").returncode, 0)
        self.assertEqual(self.built(), ["github.com/versity/versitygw/cmd/versitygw@v1.8.0"])
        path = self.peers("--path", "versitygw").stdout.strip()
        self.assertEqual(path, str(self.cache / "versitygw/v1.8.0"))
        self.assertTrue(os.access(f"{path}/bin/versitygw", os.X_OK))

    def test_the_program_has_the_name_of_the_peer(self):
        self.fake_go()
        self.peers("toxiproxy")
        self.assertEqual([p.name for p in (self.cache / "toxiproxy/v2.12.0/bin").iterdir()],
                         ["toxiproxy"])

    def test_a_broken_build_leaves_nothing_and_is_done_again(self):
        self.fake_go(trouble='printf half > "$GOBIN/versitygw"; echo no space left; exit 1')
        done = self.peers("versitygw")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no space left", done.stderr)
        self.assertIn("could not make versitygw; the whole log is", done.stderr)
        self.assertEqual(self.peers("--path", "versitygw").returncode, 1)
        self.assertEqual(sorted(p.name for p in self.cache.iterdir()), [".lock", "versitygw.log"])
        self.fake_go()
        self.assertEqual(self.peers("versitygw").returncode, 0)
        self.assertEqual(self.peers("--path", "versitygw").returncode, 0)

    def test_one_failure_does_not_keep_the_others_from_being_made(self):
        self.fake_go(trouble='[ "${last#*toxi}" = "$last" ] || exit 1')
        done = self.peers("toxiproxy", "versitygw")
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 ready, 1 failed, 0 skipped", done.stdout)
        self.assertEqual(self.peers("--path", "versitygw").returncode, 0)

    def test_without_go_a_peer_is_skipped_with_its_reason_and_in_ci_that_is_an_error(self):
        done = self.peers("minio")
        self.assertEqual(done.returncode, 0)
        self.assertIn("skipped minio: needs go >= 1.24, and there is no go on PATH", done.stdout)
        self.assertEqual(self.peers("minio", ci="true").returncode, 1)

    def test_an_old_go_is_no_go(self):
        self.fake_go(version="1.19.8")
        done = self.peers("minio")
        self.assertEqual(done.returncode, 0)
        self.assertIn("the go on PATH is 1.19.8", done.stdout)
        self.assertEqual(self.built(), [])

    def test_the_list_tells_what_is_there(self):
        self.fake_go()
        self.peers("versitygw")
        rows = {row.split()[0]: row.split()[1:] for row in self.peers("--list").stdout.splitlines()}
        self.assertEqual(rows["versitygw"], ["v1.8.0", "installed"])
        self.assertEqual(rows["ministack"], ["1.5.33", "missing"])
        self.assertEqual(rows["go"][-1], "installed")

    def test_a_missing_peer_has_no_path_but_advice(self):
        done = self.peers("--path", "ministack")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("run tools/peers ministack", done.stderr)

    def test_mistakes_on_the_command_line_are_explained(self):
        self.assertIn("the peers are: go minio", self.peers("minoi").stderr)
        self.assertIn("--help", self.peers("--lsit").stderr)
        self.assertIn("NSTANCE_PEERS_DIR", self.peers("--help").stdout)


if __name__ == "__main__":
    unittest.main()

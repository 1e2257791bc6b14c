"""Conductor's hosts on machines reached over ssh and on those of a testbed file: what --map may say."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capability import have_sshd, need
from dutlab.hosts.lease import lease_files
from dutlab.labs.state import StateFolder
from forked import Forked
from processes import eventually
from run_records import record_in

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Forked]
HOST = "[Coordinator]\nplayer: x\n[Startup]\nstep1: echo ready\n[Run]\nstep1: readlink /proc/self/ns/net\n[Collect]\n[Reset]\nstep1: true\n"


@pytest.fixture
def dutlab(dutlab: Command, tmp_path: Path) -> Command:
    return functools.partial(dutlab, env={"HOME": str(tmp_path)})


@pytest.fixture
def lab(dutlab: Command, label: str, tmp_path: Path) -> Iterator[str]:
    """An ssh lab whose machines are in the user's ssh_config, a testbed file of them, and a test of three hosts."""
    need("sshd", have_sshd())
    assert (done := dutlab("lab", "up", "three-node-ssh", "--label", label)).returncode == 0, done.stderr
    (tmp_path / ".ssh").mkdir()
    shutil.copy(StateFolder().ssh_folder(label) / "config", tmp_path / ".ssh" / "config")
    description = (Path(__file__).parents[2] / "src" / "dutlab" / "spec" / "labs" / "three-node.yaml").read_text()
    links = description[description.index("links:") : description.index("\nlab:")]
    hosts = "".join(f"  {host}: {{ssh: root@{host}}}\n" for host in ("source", "dut", "sink"))
    (tmp_path / "bench.yaml").write_text(f"testbed: bench\nhosts:\n{hosts}{links}")
    (tmp_path / "test.cfg").write_text("[Test]\ntrials: 1\n[Workers]\nclient: host.cfg\nserver: host.cfg\nhere: host.cfg\n")
    (tmp_path / "host.cfg").write_text(HOST)
    yield label
    assert (done := dutlab("lab", "down", label)).returncode == 0, done.stderr


def namespace(label: str, role: str) -> str:
    inside = ["ip", "netns", "exec", f"dutlab-{label}-{role}"]
    return subprocess.run([*inside, "readlink", "/proc/self/ns/net"], capture_output=True, text=True, check=True).stdout


def lease(label: str, role: str) -> Path:
    """Where the lease of a machine lies while somebody has it."""
    return lease_files("".join(filter(str.isdigit, namespace(label, role))))[0]


def test_hosts_over_ssh_of_a_testbed_file_and_here_run_one_test_together(dutlab: Command, lab: str, tmp_path: Path) -> None:
    maps = ["--map", "client=ssh:source", "--map", "server=bench.yaml/sink", "--map", "here=local"]
    done = dutlab("conductor", "run", "test.cfg", *maps)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("runs/*/trials/0001")
    assert (folder / "raw/client/run/01.out").read_text() == namespace(lab, "source")
    assert (folder / "raw/server/run/01.out").read_text() == namespace(lab, "sink")
    assert (folder / "raw/here/run/01.out").read_text() == f"{Path('/proc/self/ns/net').readlink()}\n"
    record = record_in(folder / "record.json")
    starts = {(row["host"], row["phase"]): row for row in record["tables"]["starts"]}
    assert {host for host, phase in starts if phase == "run"} == {"client", "server", "here"}
    assert all(abs(row["clock_ahead_ns"]) <= row["clock_error_ns"] for row in starts.values())
    assert not lease(lab, "source").exists()
    assert not lease(lab, "sink").exists()
    resumed = dutlab("resume", str(folder.parents[1]))
    assert resumed.returncode == 2, resumed.stderr


def test_players_are_reached_over_ssh_as_the_user_that_was_asked_for_and_what_they_spawned_is_in_the_originals_report(
    dutlab: Command, lab: str, tmp_path: Path
) -> None:
    for role in ("source", "sink"):
        spawning = HOST.replace("player: x", f"player: {role}").replace("step1: echo ready", "spawn1: sleep 300\nstep2: id -un")
        (tmp_path / f"{role}.cfg").write_text(spawning)
    (tmp_path / "test.cfg").write_text("[Test]\ntrials: 1\n[Workers]\nclient: source.cfg\nserver: sink.cfg\n")
    done = dutlab("conductor", "run", "test.cfg", "--players", "ssh:root@", "-f", "json", "-o", "out.json")
    assert done.returncode == 0, done.stderr
    phases = json.loads((tmp_path / "out.json").read_text())["trials"][0]["phases"]
    for worker, role in (("worker_0", "source"), ("worker_1", "sink")):
        said = [(row["code"], row["message"]) for row in phases["startup"]["workers"][worker]["results"]]
        assert said == [(0, "Spawned"), (0, "root\n"), (65535, "phases complete")]
        assert phases["run"]["workers"][worker]["results"][0]["message"] == namespace(lab, role)


def test_a_machine_that_another_run_has_is_refused_and_freed_once_that_has_died(
    start: Start, dutlab: Command, lab: str, tmp_path: Path
) -> None:
    (tmp_path / "host.cfg").write_text(HOST.replace("step1: readlink /proc/self/ns/net", "step1: touch running; sleep 300"))
    (tmp_path / "test.cfg").write_text("[Test]\ntrials: 1\n[Workers]\nclient: host.cfg\n")
    argv = ["conductor", "run", "test.cfg", "--map", "client=bench.yaml/source"]
    second = ["conductor", "run", "test.cfg", "--map", "client=ssh:source", "--runs", "others"]
    for free in ([*second, "-p", "startup", "--take-over"], ["undo"]):
        with start(*argv, env={"HOME": str(tmp_path)}):
            assert eventually(lease(lab, "source").exists)
            (run,) = tmp_path.glob("runs/*")
            if free != ["undo"]:
                refused = dutlab(*second)
                assert refused.returncode == 3, refused.stderr
                assert "client: in use by root@" in refused.stderr
                assert not list(tmp_path.glob("others/*")), "a run that measured nothing leaves nothing"
        freed = dutlab(*free, *([str(run)] if free == ["undo"] else []))
        assert freed.returncode == 0, freed.stderr
        assert not lease(lab, "source").exists()
        if free == ["undo"]:
            assert freed.stdout.splitlines()[-1] == "freed: client"
            assert dutlab("undo", str(run), "--reset").returncode == 0  # whether it had begun a step depends on when it was killed
            assert dutlab("undo", str(run)).stdout == "nothing to undo\n"
        shutil.rmtree(run)


def test_a_machine_beside_a_lab_is_freed_after_a_kill_while_the_lab_waits_for_its_reset(
    start: Start, dutlab: Command, lab: str, tmp_path: Path
) -> None:
    (tmp_path / "host.cfg").write_text(HOST.replace("step1: readlink /proc/self/ns/net", "step1: touch running; sleep 300"))
    (tmp_path / "test.cfg").write_text("[Test]\ntrials: 1\n[Workers]\nclient: host.cfg\ninside: host.cfg\n")
    argv = ["conductor", "run", "test.cfg", "--map", "client=ssh:source", "--map", "inside=lab:back-to-back/sink"]
    with start(*argv, env={"HOME": str(tmp_path)}):
        assert eventually((tmp_path / "running").exists)
    (run,) = tmp_path.glob("runs/*")
    named = dutlab("undo", str(run))
    assert named.returncode == 0, named.stderr
    assert "  client: true\n" in named.stdout
    assert "  inside: " in named.stdout
    assert named.stdout.splitlines()[-1] == "freed: client"
    assert not lease(lab, "source").exists()
    done = dutlab("undo", str(run), "--reset")
    assert done.returncode == 0, done.stderr
    assert "taken down" in done.stdout.splitlines()[-1]
    assert dutlab("undo", str(run)).stdout == "nothing to undo\n"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("ssh:-oProxyCommand=x", "is not an ssh target"),
        ("nowhere.yaml/source", "there is no file nowhere.yaml"),
        ("bench.yaml/router", "has no host router; it has source, dut, sink"),
        ("telnet:x", "no such kind of host; a host is local, ssh:"),
    ],
)
def test_a_place_that_is_none_is_refused_with_what_there_is(dutlab: Command, tmp_path: Path, place: str, said: str) -> None:
    (tmp_path / "test.cfg").write_text("[Workers]\nclient: host.cfg\n")
    (tmp_path / "host.cfg").write_text(HOST)
    (tmp_path / "bench.yaml").write_text(
        "testbed: t\nhosts: {source: {local: true}, dut: {ssh: root@192.0.2.1}, sink: {local: true}}\n"
        "links: {a: {path: [source:a, dut:b, dut:c, sink:d], addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}}\n"
    )
    done = dutlab("conductor", "run", "test.cfg", "--map", f"client={place}")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()

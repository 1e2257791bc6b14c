"""The main job over ssh: the embedded lab with an OpenSSH server in each namespace, and testbed files of machines reached over ssh."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from difflib import ndiff
from pathlib import Path

import duckdb
import pytest

from capability import have_sshd, need, need_program
from dutlab.dut import family
from dutlab.hosts.netns import NetnsHost
from dutlab.labs import description, inside
from dutlab.labs.state import StateFolder
from dutlab.methods.rfc2544 import reset
from dutlab.runner.journal import read_journal
from forked import Forked
from main_job import only_run, processes_in, rules, trial_begun
from meter_server import Answers, serve
from processes import eventually
from run_records import record_in

ROOT = Path(__file__).parents[2]
WORKLOADS = """
repeats: 1
workloads:
  - iperf3: {streams: 2, omit: 0s, duration: 1s, links: [[a]]}
  - sweep: {frame_sizes: [64], rates: [2kpps], duration: 300ms, warmup: 0s, drain: 100ms, links: [[a]]}
"""
Command = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Forked]


@pytest.fixture(autouse=True)
def _machine() -> None:
    need("sshd", have_sshd())
    need_program("iperf3")
    need_program("nft")


@pytest.fixture
def dutlab(dutlab: Command, tmp_path: Path) -> Command:
    return functools.partial(dutlab, env={"HOME": str(tmp_path)})


@pytest.fixture
def start(start: Start, tmp_path: Path) -> Start:
    return functools.partial(start, env={"HOME": str(tmp_path)})


@pytest.fixture
def machines(dutlab: Command, label: str, tmp_path: Path) -> Iterator[Path]:
    """A testbed file of machines reached over ssh, which are in a lab of the test's own; the user's ssh_config says how to log in."""
    assert (done := dutlab("lab", "up", "three-node-ssh", "--label", label)).returncode == 0, done.stderr
    (tmp_path / ".ssh").mkdir()
    shutil.copy(StateFolder().ssh_folder(label) / "config", tmp_path / ".ssh" / "config")
    lab = (ROOT / "src" / "dutlab" / "spec" / "labs" / "three-node.yaml").read_text()
    links = lab[lab.index("links:") : lab.index("\nlab:")]
    file = tmp_path / "bench.yaml"
    file.write_text("testbed: bench\nhosts:\n" + "".join(f"  {h}: {{ssh: root@{h}}}\n" for h in ("source", "dut", "sink")) + links)
    yield file
    assert (done := dutlab("lab", "down", label)).returncode == 0, done.stderr


def experiment(tmp_path: Path, testbed: str, modes: str) -> str:
    (tmp_path / "experiment.yaml").write_text(f"experiment: over-ssh\ntestbed: {testbed}\nfactors: {{mode: [{modes}]}}\n{WORKLOADS}")
    return "experiment.yaml"


def statuses(run: Path) -> list[str]:
    return [record_in(p)["status"] for p in sorted(run.glob("trials/[0-9][0-9][0-9][0-9]/record.json"))]  # not those set aside


def test_an_experiment_runs_over_ssh_and_leaves_nothing_behind(dutlab: Command, tmp_path: Path) -> None:
    done = dutlab("run", experiment(tmp_path, "{lab: three-node-ssh}", "router, nat"))
    assert done.returncode == 0, done.stderr
    assert statuses(only_run(tmp_path)) == ["measured"] * 4
    figures = [record_in(p)["figures"]["a"] for p in sorted(only_run(tmp_path).glob("trials/*/record.json"))]
    assert all(figures)
    assert list(Path("/var/tmp").glob("dutlab-engine-*")) == []
    assert list(StateFolder().path.glob("*.ssh/made-privsep")) == []


def test_a_run_on_a_testbed_file_that_is_killed_is_undone_and_resumed_over_ssh(
    start: Start, dutlab: Command, machines: Path, label: str, tmp_path: Path
) -> None:
    file = experiment(tmp_path, machines.name, "nat")
    assert eventually(lambda: "NO-CARRIER" not in str(settings_of(label)))  # the lab's links come up a moment after it stands
    before, all_before = rules(label), settings_of(label)
    with start("run", file) as run:
        assert eventually(lambda: list(tmp_path.glob("runs/*/trials/0001/record.json")) != [])
        os.kill(run.pid, signal.SIGSTOP)  # it has the machines for as long as this takes
        assert rules(label) != before
        other = dutlab("run", "experiment.yaml", "--runs", "others")
        assert other.returncode == 3, other.stderr
        assert f"dut: in use by root@{platform.node()} (process {run.pid}) for {only_run(tmp_path)} since" in other.stderr
    assert eventually(lambda: no_commands_in(label)), "what ran there ended with the controller"
    run_folder = str(only_run(tmp_path))
    other = dutlab("run", "experiment.yaml", "--runs", "others")
    assert other.returncode == 3, other.stderr
    assert f"which has ended; `dutlab undo {run_folder}` there restores and frees it" in other.stderr
    assert not list(tmp_path.glob("others/*")), "a run that measured nothing leaves nothing"
    undone = dutlab("undo", run_folder)
    assert (undone.stdout, undone.returncode) == ("1 change undone; freed: dut, sink, source\n", 0), undone.stderr
    assert rules(label) == before
    resumed = dutlab("resume", run_folder)
    assert resumed.returncode == 0, resumed.stderr
    assert statuses(only_run(tmp_path)) == ["measured"] * 2
    assert (only_run(tmp_path) / "testbed.yaml").read_text() == machines.read_text()
    assert no_commands_in(label)
    assert eventually(lambda: connections_in(label) == "")
    changed = [f"{what}:\n" + "".join(ndiff(was.splitlines(True), now.splitlines(True))) for what, was, now in changes(all_before, label)]
    assert not changed, "\n".join(changed)


def settings_of(label: str) -> dict[str, str]:
    """All that a run could have changed on the lab's machines and left so."""
    found = {}
    for role in ("source", "dut", "sink"):
        inside = ["ip", "netns", "exec", f"dutlab-{label}-{role}"]
        for what in ("sysctl -a -r ^net", "nft list ruleset", "ip -d link", "ip address", "ip route", "ip neigh show nud permanent"):
            said = subprocess.run([*inside, *what.split()], capture_output=True, text=True, check=True).stdout
            found[f"{role}: {what}"] = "".join(line for line in said.splitlines(keepends=True) if "nf_conntrack_count" not in line)
    return found


def changes(before: dict[str, str], label: str) -> list[tuple[str, str, str]]:
    """What, as it was and as it is."""
    return [(what, before[what], now) for what, now in settings_of(label).items() if now != before[what]]


def connections_in(label: str) -> str:
    """Open connections of the lab's machines to anybody."""
    inside = (["ip", "netns", "exec", f"dutlab-{label}-{role}", "ss", "-Htn", "state", "established"] for role in ("source", "dut", "sink"))
    return "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in inside)


def no_commands_in(label: str) -> bool:
    """Whether the lab's machines run nothing but their ssh servers."""
    return all(_is_sshd(pid) for pid in processes_in(label))


def _is_sshd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sshd\n"
    except OSError:  # it has ended
        return True


def test_a_host_that_cannot_be_reached_ends_the_run_with_what_to_do(dutlab: Command, machines: Path, tmp_path: Path) -> None:
    machines.write_text(machines.read_text().replace("root@sink", "root@127.0.0.1:1"))
    done = dutlab("run", experiment(tmp_path, machines.name, "router"))
    assert done.returncode == 3, done.stderr
    assert "sink: ssh root@127.0.0.1:1: refused: nothing listens there; start sshd on it" in done.stderr
    assert list((only_run(tmp_path) / "trials").iterdir()) == []


def reboot(label: str, role: str) -> None:
    """What a reboot does to a machine of the lab: all that ran is gone, and so are rules and settings; then its ssh server is back."""
    name = f"dutlab-{label}-{role}"
    identity = inside.namespace_id(Path("/run/netns", name))
    assert identity is not None
    assert inside.kill_all(identity) == []
    enter = ["ip", "netns", "exec", name]
    subprocess.run([*enter, "nft", "flush", "ruleset"], check=True)
    subprocess.run([*enter, "sysctl", "-q", "-w", "net.ipv4.ip_forward=0"], check=True)
    subprocess.run([*enter, "/usr/sbin/sshd", "-f", str(StateFolder().ssh_folder(label) / f"sshd-{role}.conf")], check=True)


@pytest.mark.timing
def test_a_dut_that_reboots_in_mid_trial_gives_no_result_and_is_restored_once_it_is_back(
    start: Start, dutlab: Command, machines: Path, label: str, tmp_path: Path
) -> None:
    before = rules(label)
    text = (tmp_path / experiment(tmp_path, machines.name, "nat")).read_text()
    only_sweep = re.sub(r"  - iperf3.*\n", "", text).replace("duration: 300ms", "duration: 3s")
    (tmp_path / "experiment.yaml").write_text(only_sweep)
    with start("run", "experiment.yaml") as run:
        assert eventually(lambda: trial_begun(tmp_path))
        time.sleep(0.5)  # in the middle of it
        reboot(label, "dut")
        said = run.ended()
    assert run.returncode == 3, said
    assert "dut: " in said
    assert "dutlab resume" in said or "dutlab undo" in said
    assert "Traceback" not in said
    assert statuses(only_run(tmp_path)) == []
    assert dutlab("undo", str(only_run(tmp_path))).returncode == 0  # the run could only restore it if it was back by then
    assert rules(label) == before
    resumed = dutlab("resume", str(only_run(tmp_path)))
    assert resumed.returncode == 0, resumed.stderr
    assert statuses(only_run(tmp_path)) == ["measured"]
    assert rules(label) == before
    assert no_commands_in(label)


async def test_a_dut_that_a_person_sets_is_asked_for_and_verified_by_frames(
    python: str, python_env: dict[str, str], dutlab: Command, machines: Path, label: str, tmp_path: Path
) -> None:
    """The person is this test, who sets the lab's DUT when asked to; once it does not do what it says."""
    machines.write_text(machines.read_text().replace("dut: {ssh: root@dut}", "dut: {family: manual}"))
    file = experiment(tmp_path, machines.name, "router, nat")
    text = (tmp_path / file).read_text()
    (tmp_path / file).write_text("".join(line for line in text.splitlines(keepends=True) if "iperf3" not in line) + "order: as-written\n")
    refused = dutlab("run", file, "--unattended")
    assert refused.returncode == 2, refused.stderr
    assert "the plan needs a person: set mode to router; set mode to nat;" in refused.stderr
    assert not (tmp_path / "runs").exists()
    dut = NetnsHost("dut", f"dutlab-{label}-dut")
    linux, bed = family("linux").modes, description("three-node").testbed
    run = await asyncio.create_subprocess_exec(
        python, "-m", "dutlab", "run", file, cwd=tmp_path, env={**python_env, "HOME": str(tmp_path)},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert run.stdin is not None
    assert run.stderr is not None
    said = b""
    for asked, answer in (
        ("set mode to router (", "rules off"),
        ("set mode to nat (", "forgot to"),
        ("restore the DUT to its state", "done"),
    ):
        said += await asyncio.wait_for(run.stderr.readuntil(asked.encode()), 60)
        if answer == "rules off":
            await linux["router"].apply(dut, bed)
        run.stdin.write(answer.encode() + b"\n")
        await run.stdin.drain()
    said += await asyncio.wait_for(run.stderr.read(), 60)
    assert await run.wait() == 1, said.decode()
    assert statuses(only_run(tmp_path)) == ["measured", "refused"]
    why = json.loads((only_run(tmp_path) / "trials/0002/record.json").read_text())["why"]
    assert "link a: it arrives translated to 172.16.10.1: the sink saw 172.16.0.2" in why
    answers = [e for e in read_journal(only_run(tmp_path) / "journal.jsonl") if e["event"] == "answered"]
    assert [(e["question"].partition(" (")[0], e["answer"]) for e in answers] == [
        ("set mode to router", "rules off"), ("set mode to nat", "forgot to"), ("restore the DUT to its state before the run", "done"),
    ]  # fmt: skip
    assert all(datetime.fromisoformat(e["at"]) for e in answers)
    assert sorted(p.name for p in (only_run(tmp_path) / "hosts").iterdir()) == ["sink.json", "source.json"]
    assert (only_run(tmp_path) / "report").exists() or dutlab("report", str(only_run(tmp_path))).returncode == 0


def test_sensors_of_a_testbed_file_are_read_in_every_trial_and_what_fails_is_a_doubt(
    machines: Path, dutlab: Command, tmp_path: Path
) -> None:
    commands = {
        "wall": "echo 42",
        "spoken": "echo forty-two",
        "refused": "exit 3",
        "hanging": "sleep 1000",
        "killed": "kill -9 $PPID",
        "absent": "dutlab-no-such-program",
    }
    sensors = "".join(f"  {name}: {{kind: command, command: '{command}', unit: W, every: 200ms}}\n" for name, command in commands.items())
    on_dut = "  pids: {kind: command, host: dut, command: 'cat /proc/sys/kernel/pid_max', unit: '%', every: 200ms}\n"
    name = experiment(tmp_path, "bench.yaml", "router")
    with serve(Answers('{"switch:0":{"apower":70.5}}')) as plug, serve(Answers("<html>log in</html>")) as page:
        meters = "".join(
            f"  {meter}: {{kind: meter, model: shelly, url: {url!r}, host: dut, every: 200ms}}\n"
            for meter, url in (("plug", plug), ("page", page))
        )
        machines.write_text(f"{machines.read_text()}\nsensors:\n{sensors}{on_dut}{meters}")
        done = dutlab("run", name, "--set", "workloads.sweep.duration=1s")
    assert done.returncode == 0, done.stderr
    records = {p.parent: record_in(p) for p in only_run(tmp_path).glob("trials/*/record.json")}
    assert len(records) == 2
    most = float(Path("/proc/sys/kernel/pid_max").read_text())
    for folder, record in records.items():
        assert record["status"] == "measured", record
        failed = {d["detail"].partition(":")[0] for d in record["doubts"] if d["kind"] == "SENSOR_FAILED"}
        assert failed == {*commands, "page"} - {"wall"}, record["doubts"]
        rows = duckdb.connect().execute(f"SELECT sensor, name, host, unit, value FROM '{folder}/samples.parquet'").fetchall()
        told = {(sensor, name): tuple(said) for sensor, name, *said in rows}
        assert told["wall", "wall"][1:] == ("W", 42)
        assert told["pids", "pids"] == ("dut", "%", most)
        assert told["plug", "plug"] == ("dut", "W", 70.5)
        assert not {name for name, of in told if of == name} & failed, "no reading is made of a fault"
    report = json.loads((only_run(tmp_path) / "report" / "report.json").read_text())
    text = json.dumps(report)
    assert "Sensor readings" in text and "forty-two" in text
    power = next(s for s in report["runs"][0]["sections"] if s["slug"] == "power")
    assert [t["title"] for t in power["tables"]] == ["plug of dut", "wall of this-machine"]


def with_switch(machines: Path, label: str, tmp_path: Path) -> str:
    """The testbed with a switch that takes the DUT's ports from it; returns the command that ends well while they are there."""
    dut = f"dutlab-{label}-dut"
    ports = [line.split(": ")[1].partition("@")[0] for line in lines_of(dut, "link", "show", "type", "veth")]
    every = " ".join(ports)
    is_on = f"ip -n {dut} link show {ports[0]} up | grep -q {ports[0]}"
    set_to = f"echo %s >> {tmp_path}/switched; for port in {every}; do ip -n {dut} link set $port %s; done"
    power = {
        "kind": "command", "on": set_to % ("on", "up"), "off": set_to % ("off", "down"), "may-switch": True, "back-within": "60s", "off-for": "1s",
        "status": f"{is_on} && echo on || echo off",
    }  # fmt: skip
    bed = machines.read_text().replace("dut: {ssh: root@dut}", f"dut: {{ssh: root@dut, power: {json.dumps(power)}}}")
    machines.write_text(bed)
    return is_on


def switched(machines: Path, label: str, tmp_path: Path) -> str:
    """The same with a meter, and an experiment that switches the DUT off in each of two trials."""
    is_on = with_switch(machines, label, tmp_path)
    meter = {"kind": "command", "command": f"{is_on} && echo 90 || echo 15", "unit": "W", "every": "200ms", "resolution": 1}
    machines.write_text(f"{machines.read_text()}\nsensors: {json.dumps({'wall': meter})}\n")
    phases = [{"name": "full", "share": "100%", "duration": "3s"}, {"name": "off", "off": True, "duration": "3s"}]
    workload = {"soak-power": {"rate": "1kpps", "frame_sizes": [64], "phases": phases, "links": [["a"]]}}
    asked = {
        "experiment": "review", "testbed": machines.name, "factors": {"mode": ["router"]}, "workloads": [workload], "repeats": 2, "disturbed": "count",
    }  # fmt: skip
    (tmp_path / "review.json").write_text(json.dumps(asked))
    return "review.json"


def test_a_dut_that_somebody_switches_off_in_a_trial_ends_the_run_and_is_switched_on_to_resume(
    start: Start, dutlab: Command, machines: Path, label: str, tmp_path: Path
) -> None:
    namespace, files = f"dutlab-{label}-dut", StateFolder().ssh_folder(label)
    ports = " ".join(line.split(": ")[1].partition("@")[0] for line in lines_of(namespace, "link", "show", "type", "veth"))
    off = f"ip netns pids {namespace} | xargs -r kill -9; for port in {ports}; do ip -n {namespace} link set $port down; done"
    on = f"for port in {ports}; do ip -n {namespace} link set $port up; done; "
    on += f"ip netns exec {namespace} setsid --wait $(PATH=$PATH:/usr/sbin command -v sshd) -f {files}/sshd-dut.conf -E {files}/dut.log"
    status = f"if ip netns pids {namespace} | grep -q .; then echo on; else echo off; fi"
    power = {"kind": "command", "on": on, "off": off, "status": status, "may-switch": True, "back-within": "60s"}
    machines.write_text(machines.read_text().replace("dut: {ssh: root@dut}", f"dut: {{ssh: root@dut, power: {json.dumps(power)}}}"))
    sweep = {"sweep": {"frame_sizes": [64], "rates": ["1kpps"], "duration": "3s", "links": [["a"]]}}
    asked = {"experiment": "by-hand", "testbed": machines.name, "factors": {"mode": ["router"]}, "workloads": [sweep], "repeats": 2}
    (tmp_path / "by-hand.json").write_text(json.dumps({**asked, "disturbed": "count"}))
    with start("run", "by-hand.json") as run:
        assert eventually(lambda: run.poll() is not None or list(tmp_path.glob("runs/*/trials/0001/record.json")) != [])
        time.sleep(1)  # into the second trial
        subprocess.run(["sh", "-c", off], check=True)
        said = run.ended()
    assert run.returncode == 3 and "dut: " in said and "dutlab resume" in said, said
    assert statuses(only_run(tmp_path)).count("measured") <= 1, "what was measured without its DUT has no result"
    resumed = dutlab("resume", str(only_run(tmp_path)))
    assert resumed.returncode == 0, resumed.stderr
    assert statuses(only_run(tmp_path)) == ["measured"] * 2
    report = (only_run(tmp_path) / "report" / "report.md").read_text()
    assert "dut did not answer, and its power was switched on" in report + resumed.stderr + resumed.stdout


def lines_of(namespace: str, *words: str) -> list[str]:
    return subprocess.run(["ip", "-o", "-n", namespace, *words], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_dut_is_switched_off_for_a_phase_and_measured_in_its_mode_again(
    dutlab: Command, machines: Path, label: str, tmp_path: Path
) -> None:
    done = dutlab("run", switched(machines, label, tmp_path))
    assert done.returncode == 0, done.stderr
    records = [record_in(path) for path in sorted(only_run(tmp_path).glob("trials/*/record.json"))]
    assert [record["status"] for record in records] == ["measured"] * 2, "in the second it is in its mode again"
    for record in records:
        figures = record["figures"]["a"]
        assert (figures["full/watts"], figures["off/watts"]) == (90.0, 15.0), record["notes"]
        assert figures["full/received_pps"] > 0
        assert not {"LINK_WENT_DOWN"} & {doubt["kind"] for doubt in record["doubts"]}, "we took them down"
    assert (tmp_path / "switched").read_text().split() == ["off", "on"] * 2
    events = [(e["event"], e.get("application")) for e in read_journal(only_run(tmp_path) / "journal.jsonl")]
    assert events.count(("dut-changing", "power")) == events.count(("dut-restored", "power")) == 2


def test_a_cut_of_power_is_a_reset_and_the_load_goes_on_through_it(
    dutlab: Command, machines: Path, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reset, "LEAST_S", 2.0)
    with_switch(machines, label, tmp_path)
    # A load that the machine can make whatever else it does: 11 748 frames a second of 512 bytes.
    machines.write_text(machines.read_text().replace("  a:\n", "  a:\n    speed: 50M\n"))
    tests = {"tests": ["throughput", "reset"], "frame_sizes": [512], "scale": 0.005, "width": 0.5, "reset_repeats": 1, "links": [["a"]]}
    asked = {"experiment": "reset", "testbed": machines.name, "factors": {"mode": ["router"]}, "workloads": [{"rfc2544": tests}]}
    (tmp_path / "reset.json").write_text(json.dumps({**asked, "repeats": 1, "disturbed": "count"}))
    done = dutlab("run", "reset.json")
    assert done.returncode == 0, done.stderr
    (path,) = only_run(tmp_path).glob("trials/*/record.json")
    record = record_in(path)
    rows = {row["kind"]: row for row in record["tables"]["reset"]}
    assert list(rows) == ["process", "software", "power"], record["notes"]
    power = rows["power"]
    assert power["without_power_ns"] > 1e9
    assert power["lost_frames"] > power["offered_pps"] > 0
    figures = record["figures"]["a"]
    assert 0 <= figures["power/reset_ns"] < 10e9, "it comes back at once, without the time that it was off"
    assert (tmp_path / "switched").read_text().split() == ["off", "on"] * 2
    report = (only_run(tmp_path) / "report" / "report.md").read_text()
    assert re.search(r"\| power, (µs|ms) \|", report) and "no part of the hardware is reset" in report
    assert not {"LINK_WENT_DOWN"} & {doubt["kind"] for doubt in record["doubts"]}


def test_a_dut_that_was_off_when_its_run_was_killed_is_switched_on_by_undo(
    start: Start, dutlab: Command, machines: Path, label: str, tmp_path: Path
) -> None:
    with start("run", switched(machines, label, tmp_path)):
        assert eventually((tmp_path / "switched").exists)
    assert (tmp_path / "switched").read_text().split() == ["off"]
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "switched").read_text().split() == ["off", "on"]

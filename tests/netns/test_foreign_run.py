"""A whole run between ends of other systems, each behind a real sshd: only the DUT in the middle is a Linux that our programs know."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

import pytest

import login_shells
from capability import have_sshd, need, need_program
from dutlab.labs.state import StateFolder
from run_records import records_below
from slow_links import slow_down

pytestmark = pytest.mark.timing
ROOT = Path(__file__).parents[2]
ENDS = ("source", "sink")
EXPERIMENT = """
experiment: foreign-ends
testbed: bench.yaml
factors: {mode: [filter-25]}
repeats: 1
workloads:
  - iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}
  - steps: {run: {source: [iperf3 --version], sink: [iperf3 --version]}}
"""
MATRIX = "  - matrix: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}\n"
PAIRED = ("macos", "freebsd")
"""Of the systems of the two ends: where every two hosts measure."""
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def dutlab(dutlab: Command, tmp_path: Path) -> Command:
    return functools.partial(dutlab, env={"HOME": str(tmp_path)})


@pytest.fixture(params=[("windows-cmd", "windows-powershell"), PAIRED, ("openbsd", "windows-cmd")], ids="-to-".join)
def systems(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Login shells of the two ends."""
    need("sshd", have_sshd())
    need_program("iperf3")
    need_program("nft")
    return request.param


@pytest.fixture
def bench(systems: tuple[str, str], dutlab: Command, label: str, tmp_path: Path) -> Iterator[Path]:
    """A testbed file whose ends are foreign, and the ssh_config that reaches them."""
    assert (done := dutlab("lab", "up", "three-node-ssh", "--label", label)).returncode == 0, done.stderr
    (tmp_path / ".ssh").mkdir()
    config = tmp_path / ".ssh" / "config"
    text = (StateFolder().ssh_folder(label) / "config").read_text()
    config.write_text("Host dut\n" + text.partition("Host dut\n")[2].partition("\nHost ")[0] + "\n")
    pids = []
    for end, shell in zip(ENDS, systems, strict=True):
        namespace = f"dutlab-{label}-{end}"
        subprocess.run(["ip", "-n", namespace, "link", "set", "dev", "lo", "up"], check=True)
        folder = tmp_path / f"files-{end}"
        with config.open("a") as whole:
            whole.write(login_shells.start(folder, namespace, shell, f"box-{end}").read_text())
        pids.append(int((folder / f"box-{end}.pid").read_text()))
    lab = (ROOT / "src" / "dutlab" / "spec" / "labs" / "three-node.yaml").read_text()
    links = lab[lab.index("links:") : lab.index("\nlab:")]
    families = {end: shell.partition("-")[0] for end, shell in zip(ENDS, systems, strict=True)}
    hosts = "".join(f"  {end}: {{ssh: root@box-{end}, family: {family}}}\n" for end, family in families.items())
    file = tmp_path / "bench.yaml"
    file.write_text(f"testbed: bench\nhosts:\n{hosts}  dut: {{ssh: root@dut}}\n{links}")
    slow_down(f"dutlab-{label}-dut", "in-a", "out-a")
    yield file
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    assert (done := dutlab("lab", "down", label)).returncode == 0, done.stderr


def test_what_both_ends_have_is_measured_and_modes_are_verified_by_their_pings(
    dutlab: Command, systems: tuple[str, str], bench: Path, tmp_path: Path
) -> None:
    (tmp_path / "experiment.yaml").write_text(EXPERIMENT + (MATRIX if systems == PAIRED else ""))
    done = dutlab("run", "experiment.yaml")
    assert done.returncode == 0, done.stderr
    found = records_below(tmp_path)
    assert {r["status"] for r in found} == {"measured"}, [r["why"] for r in found]
    by_kind = {kind: [r for r in found if r["cell"]["setting"]["kind"] == kind] for kind in ("iperf3", "matrix", "steps")}
    assert len(by_kind["iperf3"]) == len(by_kind["steps"]) == 1
    pairs = {(r["cell"]["setting"]["client"], r["cell"]["setting"]["server"]) for r in by_kind["matrix"]}
    assert pairs == (set(permutations(("source", "dut", "sink"), 2)) if systems == PAIRED else set())
    assert all(r["figures"]["a"]["goodput_bps"] > 0 for kind in ("iperf3", "matrix") for r in by_kind[kind])
    # The commands of the first trial, whichever that is, include those of the set-up.
    iperf3 = {c["host"] for c in by_kind["iperf3"][0]["commands"] if "iperf3" in c["argv"][0] and "--version" not in c["argv"]}
    assert iperf3 == {"source", "sink"}
    checks = {c["what"]: c for c in found[0]["checks"]}
    for what in ("a permitted flow passes", "a new flow from outside passes"):
        assert checks[f"link a: {what}"]["by_ping"]
        assert checks[f"link a: {what}"]["found"].startswith("answered (proof: ping")
    counters = by_kind["iperf3"][0]["counters"]
    assert counters["source"]["eth-a_tx_bytes"] > 1e6 < counters["sink"]["eth-a_rx_bytes"]
    facts = {end: json.loads(next(tmp_path.glob(f"runs/*/hosts/{end}.json")).read_text()) for end in ENDS}
    assert all(of["cpu"]["model"] and of["memory_bytes"] > 0 and of["interfaces"]["eth-a"]["mtu"] == 1500 for of in facts.values()), facts

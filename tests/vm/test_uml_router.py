"""The labs `uml-router` and `uml-two-sites`: a DUT with a kernel of its own, and in the second a source with one too."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from capability import have_netns, need, need_engine
from dutlab.hosts.netns import NAMESPACES
from dutlab.labs.state import StateFolder
from dutlab.labs.uml import MODULES
from guests import kernels
from main_job import only_run, records
from processes import LIMIT_S, eventually


@pytest.fixture(autouse=True)
def parts() -> None:
    need("netns", have_netns())
    need("uml", bool(shutil.which("linux.uml")) and MODULES.is_dir())
    need_engine()


def test_its_own_kernel_forwards_and_delays_what_passes_and_nothing_is_left(dutlab, tmp_path: Path) -> None:
    before = set(NAMESPACES.glob("dutlab-*"))
    done = dutlab("demo", "--lab", "uml-router")
    assert done.returncode in (0, 1), done.stderr
    run = only_run(tmp_path)
    measured = [r for r in records(run) if r["status"] == "measured"]  # other work may have disturbed some in every attempt
    of_mode = {mode: [r for r in measured if r["cell"]["mode"] == mode] for mode in ("router", "far-away", "lossy")}
    latency = {
        mode: min(f["latency_p50_ns"] for r in of for f in r["figures"].values() if "latency_p50_ns" in f) for mode, of in of_mode.items()
    }
    assert 20e6 < latency["far-away"] < 20e6 + latency["router"] + 10e6, latency
    lost = {mode: sum(f.get("loss_ratio", 0.0) for r in of for f in r["figures"].values()) for mode, of in of_mode.items()}
    assert lost["router"] < lost["lossy"], lost
    assert (run / "report" / "report.html").exists()
    assert set(NAMESPACES.glob("dutlab-*")) == before


TUNNELS = ("ipsec-3des-md5", "ipsec-chacha20-poly1305")


def test_tcp_passes_encrypted_from_site_to_site_in_an_old_cipher_and_a_new_one(dutlab, tmp_path: Path) -> None:
    text = f"""
experiment: tunnels
testbed: {{lab: uml-two-sites}}
factors: {{mode: [{", ".join(TUNNELS)}]}}
order: as-written
repeats: 1
disturbed: count
workloads:
  - iperf3: {{streams: 1, omit: 0s, duration: 2s, links: [[a]]}}
"""
    (tmp_path / "e.yaml").write_text(text)
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    assert {r["cell"]["mode"]: r["status"] for r in records(run)} == dict.fromkeys(TUNNELS, "measured"), done.stderr
    # Both ends counted the bytes of each association, and what was not encrypted did not pass.
    assert (run / "journal.jsonl").read_text().count('"mode-verified"') == len(TUNNELS)


PLAIN = ("gre", "ipip", "vxlan")


def test_tcp_passes_through_each_tunnel_in_the_clear_and_nothing_of_it_stays(dutlab, tmp_path: Path) -> None:
    text = f"""
experiment: tunnels
testbed: {{lab: uml-two-sites}}
factors: {{mode: [{", ".join(PLAIN)}, router]}}
order: as-written
repeats: 1
disturbed: count
workloads:
  - iperf3: {{streams: 1, omit: 0s, duration: 2s, links: [[a]]}}
"""
    (tmp_path / "e.yaml").write_text(text)
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    assert {r["cell"]["mode"]: r["status"] for r in records(run)} == dict.fromkeys((*PLAIN, "router"), "measured"), done.stderr
    # Both ends counted the packets of the tunnel in both directions. A tunnel that stays would be refused by the name of its port.
    assert (run / "journal.jsonl").read_text().count('"mode-verified"') == len(PLAIN) + 1


def test_a_router_whose_kernel_was_killed_is_said_to_have_ended(dutlab) -> None:
    label = f"t{os.getpid()}-uml"
    done = dutlab("lab", "up", "uml-router", "--label", label)
    try:
        assert done.returncode == 0, done.stderr
        for pid in kernels(label):
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not kernels(label), LIMIT_S)
        done = dutlab("measure", "sweep", "frame_sizes=64", "--lab", label)
        assert (done.returncode, "the kernel of its guest has ended" in done.stderr) == (3, True), done.stderr
    finally:
        done = dutlab("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert not StateFolder().ssh_folder(label).exists()

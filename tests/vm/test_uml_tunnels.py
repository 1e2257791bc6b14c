"""Tunnels of the lab `uml-two-sites`, which is built once for all tests here: source and DUT are guests, whose kernel has ESP, GRE and VXLAN."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capability import have_netns, have_strongswan, need, need_engine
from dutlab.labs.uml import MODULES
from guests import kernels
from main_job import only_run, records
from processes import LIMIT_S, eventually

Cli = Callable[..., subprocess.CompletedProcess[str]]
EXAMPLE = Path(__file__).parents[2] / "examples/ipsec/experiment.yaml"
OF_GUEST = """ip -brief link | grep -v @NONE; ip route; ip neighbour show nud permanent; ip xfrm policy; ip xfrm state list nokeys
ls -d /run/dutlab-* 2>&1; cat /proc/[0-9]*/comm | grep -E 'charon|ping|iperf3'; cat /proc/sys/net/ipv4/ip_forward; nft list ruleset"""
"""What tunnels change of a guest. Ports `@NONE` come with a module."""
STEPS = """
experiment: tunnels
testbed: {{lab: uml-two-sites}}
factors: {{mode: [{modes}]}}
modes: {own}
order: as-written
repeats: 1
workloads:
  - steps: {{on_failure: stop, run: {{source: [{{run: {command}, timeout: 60s}}]}}}}
watch: []
"""
IPERF3 = """
experiment: tunnels
testbed: {lab: uml-two-sites}
factors: {mode: [gre, ipip, vxlan, ipsec-require, ikev2-chacha20-poly1305]}
order: as-written
repeats: 1
disturbed: count
workloads:
  - iperf3: {streams: 1, omit: 0s, duration: 1s, links: [[a]]}
"""


@pytest.fixture(scope="module")
def cli(python: str, python_env: dict[str, str]) -> Cli:
    """Runs the command to its end."""

    def run(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        argv = [python, "-m", "dutlab", *args]
        return subprocess.run(argv, cwd=cwd, env=python_env, capture_output=True, text=True, timeout=780, check=False)

    return run


@pytest.fixture(scope="module")
def sites(cli: Cli) -> Iterator[str]:
    """Label of the lab, of which nothing is left."""
    need("netns", have_netns())
    need("uml", bool(shutil.which("linux.uml")) and MODULES.is_dir())
    need("strongswan", have_strongswan())
    need_engine()
    label = f"t{os.getpid()}-sites"
    done = cli("lab", "up", "uml-two-sites", "--label", label)
    assert done.returncode == 0, done.stderr
    yield label
    done = cli("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert not kernels(label)


@pytest.fixture
def guests(cli: Cli, sites: str) -> Callable[[], dict[str, str]]:
    """What both guests hold of tunnels; the same after a test as before it."""
    return lambda: {host: cli("lab", "shell", sites, host, "sh", "-c", OF_GUEST).stdout for host in ("source", "dut")}


def statuses(run: Path) -> dict[str, str]:
    return {r["cell"]["mode"]: r["status"] for r in records(run)}


def test_tcp_passes_through_every_kind_of_tunnel_and_nothing_of_it_stays(cli, sites, guests, tmp_path: Path) -> None:
    before = guests()
    (tmp_path / "e.yaml").write_text(IPERF3)
    done = cli("run", "e.yaml", "--lab", sites, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    modes = ("gre", "ipip", "vxlan", "ipsec-require", "ikev2-chacha20-poly1305")
    assert statuses(only_run(tmp_path)) == dict.fromkeys(modes, "measured"), done.stderr
    assert guests() == before


def test_the_example_of_ciphers_runs_in_every_cipher_of_its_list(cli, sites, guests, tmp_path: Path) -> None:
    before = guests()
    text = (
        EXAMPLE.read_text()
        .replace("omit: 1s, duration: 5s", "omit: 0s, duration: 1s")
        .replace("repeats: 3", "repeats: 1\ndisturbed: count")
    )
    assert text.count("\nrepeats: 1\n") == text.count("duration: 1s") == 1
    (tmp_path / "e.yaml").write_text(text)
    done = cli("run", "e.yaml", "--lab", sites, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = statuses(only_run(tmp_path))
    assert (len(found), set(found.values())) == (9, {"measured"}), done.stderr
    assert guests() == before


OWN = """
  closed:
    apply: [sysctl -w net.ipv4.ip_forward=1, ip xfrm policy add src 172.16.0.0/24 dst 172.16.10.0/24 proto udp dir fwd action block]
    verify: [ip xfrm policy | grep -q 'action block']
    restore: [ip xfrm policy flush, sysctl -w net.ipv4.ip_forward=0]
    frames: dropped
  open:
    apply: [sysctl -w net.ipv4.ip_forward=1, ip link add own type gre local 172.16.0.1 remote 172.16.0.2]
    restore: [ip link del own, sysctl -w net.ipv4.ip_forward=0]
    frames: dropped
  false:
    apply: [ip link add own type ipip local 172.16.0.1 remote 172.16.0.2]
    verify: ["false"]
    restore: [ip link del own]"""


def test_both_ends_agree_on_the_cipher_of_the_mode_and_a_mode_that_is_not_in_force_measures_nothing(
    cli, sites, guests, tmp_path: Path
) -> None:
    before = guests()
    agreeing = {
        "ikev2-null": "NULL/HMAC_SHA2_256_128", "ikev2-3des-md5": "3DES_CBC/HMAC_MD5_96", "ikev2-host": "AES_GCM_16-128",
    }  # fmt: skip
    modes = (*agreeing, "open", "false", "closed")
    (tmp_path / "e.yaml").write_text(STEPS.format(modes=", ".join(modes), own=OWN, command="ping -n -c 1 172.16.0.1"))
    done = cli("run", "e.yaml", "--lab", sites, cwd=tmp_path)
    run = only_run(tmp_path)
    assert statuses(run) == dict.fromkeys(modes, "measured") | {"open": "refused", "false": "refused"}, done.stderr
    assert "mode open is not in force: link a: what is not encrypted is dropped: 10 of 10 probe frames arrived" in done.stderr + done.stdout
    found = {r["cell"]["mode"]: r["checks"] for r in records(run)}
    for mode, cipher in agreeing.items():
        assert [c["found"] for c in found[mode] if "both ends agreed" in c["what"]] == [cipher] * 2
    assert guests() == before
    # Of the secret that both ends share nothing is on disk: swanctl.conf(5) would say it behind this word.
    assert not [p for p in run.rglob("*") if p.is_file() and b"secret = " in p.read_bytes()]


def test_after_kill_9_with_a_tunnel_up_undo_puts_both_ends_back(cli, sites, guests, python, python_env, tmp_path: Path) -> None:
    before = guests()
    (tmp_path / "e.yaml").write_text(STEPS.format(modes="ikev2", own="{}", command="sleep 55"))
    argv = [python, "-m", "dutlab", "run", "e.yaml", "--lab", sites]
    with subprocess.Popen(argv, cwd=tmp_path, env=python_env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        journals = (tmp_path / "runs").glob
        assert eventually(lambda: any('"trial-started"' in path.read_text() for path in journals("*/journal.jsonl")), LIMIT_S)
        os.kill(running.pid, signal.SIGKILL)
    held = guests()
    assert all("proto esp" in said and "charon" in said for said in held.values()), held
    done = cli("undo", str(only_run(tmp_path)), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert guests() == before

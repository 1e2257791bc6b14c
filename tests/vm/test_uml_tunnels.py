"""Tunnels of the lab `uml-two-sites`, which is built once for all tests here: source and DUT are guests, whose kernel has ESP, GRE and VXLAN."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from array_lab import journalled
from guests import in_guest
from main_job import only_run, records
from processes import LIMIT_S, eventually
from vm.conftest import Dutlab

EXAMPLE = Path(__file__).parents[2] / "examples/ipsec/experiment.yaml"
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
TUNNELS = ("gre", "ipip", "vxlan", "ipsec-require")
"""Those of another kind than the example's, which are of one kind and differ by their ciphers."""


def statuses(run: Path) -> dict[str, str]:
    return {r["cell"]["mode"]: r["status"] for r in records(run)}


def test_tcp_passes_in_every_cipher_of_the_example_and_through_every_other_kind_of_tunnel(
    dutlab: Dutlab, uml_sites: str, tmp_path: Path
) -> None:
    text = EXAMPLE.read_text()
    for written, short in (("omit: 1s, duration: 5s", "omit: 0s, duration: 1s"), ("repeats: 3", "repeats: 1\ndisturbed: count")):
        assert written in text
        text = text.replace(written, short)
    (tmp_path / "e.yaml").write_text(text.replace("    - router\n", "".join(f"    - {mode}\n" for mode in ("router", *TUNNELS))))
    done = dutlab("run", "e.yaml", "--lab", uml_sites)
    assert done.returncode == 0, done.stderr
    found = statuses(only_run(tmp_path))
    assert (len(found), set(found.values()), set(TUNNELS) - found.keys()) == (13, {"measured"}, set()), done.stderr


NUMBERED = """
experiment: by-number
testbed: {lab: uml-two-sites}
factors: {mode: [ipsec, vxlan], tunnels: [1000]}
order: as-written
repeats: 1
disturbed: count
workloads:
  - iperf3: {streams: 2, omit: 0s, duration: 1s, links: [[a]]}
watch: []
"""


def test_a_thousand_tunnels_carry_traffic_in_several_of_them_and_go_with_the_mode(dutlab: Dutlab, uml_sites: str, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(NUMBERED)
    done = dutlab("run", "e.yaml", "--lab", uml_sites)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    assert statuses(run) == {"ipsec": "measured", "vxlan": "measured"}, done.stderr
    checks = {r["cell"]["mode"]: {c["what"]: c["found"] for c in r["checks"]} for r in records(run)}
    assert checks["ipsec"]["dut: 2000 associations a link"] == "2000 for 1 links"
    assert checks["ipsec"]["source: frames pass through 32 of the associations"] == "idle: none"
    assert checks["vxlan"]["dut: every port of a tunnel is up"].startswith("1000 of 1000")
    for host in ("source", "dut"):
        left = in_guest(uml_sites, host, "ip -o addr; ip route show table all; ip xfrm state; ip xfrm policy; ip rule")
        assert "100.64." not in left and "proto esp" not in left and "dutlab-t" not in left, left


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
    dutlab: Dutlab, uml_sites: str, tmp_path: Path
) -> None:
    agreeing = {
        "ikev2-null": "NULL/HMAC_SHA2_256_128", "ikev2-3des-md5": "3DES_CBC/HMAC_MD5_96", "ikev2-host": "AES_GCM_16-128",
    }  # fmt: skip
    modes = (*agreeing, "open", "false", "closed")
    (tmp_path / "e.yaml").write_text(STEPS.format(modes=", ".join(modes), own=OWN, command="ping -n -c 1 172.16.0.1"))
    done = dutlab("run", "e.yaml", "--lab", uml_sites)
    run = only_run(tmp_path)
    assert statuses(run) == dict.fromkeys(modes, "measured") | {"open": "refused", "false": "refused"}, done.stderr
    assert "mode open is not in force: link a: what is not encrypted is dropped: 10 of 10 probe frames arrived" in done.stderr + done.stdout
    found = {r["cell"]["mode"]: r["checks"] for r in records(run)}
    for mode, cipher in agreeing.items():
        assert [c["found"] for c in found[mode] if "both ends agreed" in c["what"]] == [cipher] * 2
    # Of the secret that both ends share nothing is on disk: swanctl.conf(5) would say it behind this word.
    assert not [p for p in run.rglob("*") if p.is_file() and b"secret = " in p.read_bytes()]


def test_after_kill_9_with_a_tunnel_up_undo_puts_both_ends_back(dutlab: Dutlab, uml_sites: str, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(STEPS.format(modes="ikev2", own="{}", command="sleep 55"))
    with dutlab.begin("run", "e.yaml", "--lab", uml_sites) as running:
        started = lambda: "trial-started" in journalled(tmp_path / "runs")  # noqa: E731
        assert eventually(lambda: started() or running.poll() is not None, LIMIT_S) and started(), running.said.read_text()
        os.kill(running.pid, signal.SIGKILL)
        running.wait(LIMIT_S)
    for host in ("source", "dut"):
        held = in_guest(uml_sites, host, "ip xfrm policy; cat /proc/[0-9]*/comm")
        assert "proto esp" in held and "charon" in held, held
    done = dutlab("undo", str(only_run(tmp_path)))
    assert done.returncode == 0, done.stderr

"""The lab `uml-home`: a home router and its provider's, with PPPoE, shapers and a distance between them."""

from __future__ import annotations

from pathlib import Path

from main_job import only_run, records
from vm.conftest import Dutlab

EXPERIMENT = """
experiment: home
testbed: {lab: uml-home, links: {a: {delay: 20ms, jitter: 2ms, loss: 2%, rate: 50Mbit/s, queue: 20ms}}}
factors:
  mode: [router]
  pppoe: ["off", "on"]
  shaper: ["off", cake 2Mbit/s, fq_codel 2Mbit/s]
exclude: [{pppoe: "off", shaper: fq_codel 2Mbit/s}, {pppoe: "on", shaper: ["off", cake 2Mbit/s]}]
repeats: 1
disturbed: count
workloads:
  - sweep: {frame_sizes: [1000], rates: [500pps], duration: 1s, links: [[a]]}
watch: []
"""


def test_it_dials_shapes_and_is_as_far_away_as_was_asked_for(dutlab: Dutlab, uml_home: str, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    done = dutlab("run", "e.yaml", "--lab", uml_home)
    assert done.returncode == 0, done.stderr
    found = {tuple(r["cell"]["factors"][name] for name in ("pppoe", "shaper")): r for r in records(only_run(tmp_path))}
    assert len(found) == 3 and {r["status"] for r in found.values()} == {"measured"}, [r["why"] for r in found.values()]
    came = {levels: r["flows"][0]["received_frames"] for levels, r in found.items()}
    plain = came.pop(("off", "off"))
    assert max(came.values()) < plain, (came, plain)
    assert all(r["figures"]["a"]["latency_p50_ns"] > 18e6 for r in found.values())
    checks = {levels: [check["what"] for check in r["checks"] if check["passed"]] for levels, r in found.items()}
    assert all(sum("delay 20 ms" in what for what in of) == 2 for of in checks.values()), checks
    assert {levels for levels, of in checks.items() if any("PPPoE" in what for what in of)} == {("on", "fq_codel 2Mbit/s")}

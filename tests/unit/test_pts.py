"""Steady state by the vectors of the specification's readings, the state of a trial worked out again from raw rounds, what is refused."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.errors import SpecRefused
from dutlab.plan.cell import Cell
from dutlab.spec.drives import DriveSpec
from dutlab.spec.loader import load_experiment
from dutlab.spec.shape import TestbedBounds
from dutlab.spec.workloads.pts import PtsSetting, PtsWorkload
from dutlab.stats.steady import MOST_ROUNDS, first_steady, steadiness
from dutlab.tools.fio.again import pts_again
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.program import job_file
from dutlab.tools.fio.pts import NOT_REACHED, STEADY, again, figures_of, state_of
from dutlab.tools.raw_figures import CannotRecompute, KeptTrial
from refusal import refusals

DESTROY = "{by-id: nvme-ACME_1, destroy: yes}"
BOUNDS = TestbedBounds({}, {"server:d1": DriveSpec(name="d1", by_id="d1", destroy=True, purge=True)})


def test_the_vectors_of_the_readings_give_their_verdicts():
    for rounds, mean, spread, excursion, steady in (
        ([100, 104, 98, 101, 97], 100, 7, 3.6, True),
        ([100, 104, 108, 112, 116], 108, 16, 16, False),
        ([100, 90, 112, 95, 103], 100, 22, 4.4, False),
    ):
        found = steadiness(rounds)
        assert found is not None
        assert (found.mean, found.spread, found.excursion) == (pytest.approx(mean), spread, pytest.approx(excursion))
        assert found.is_steady is steady and (first_steady(rounds) is not None) is steady
    slower = first_steady([1000.0] * 3 + [900.0, 600.0] + [400.0] * 6)
    assert slower is not None and slower.first == 6 and slower.mean == 400, "not before it has become slow"
    assert first_steady([2.0**n for n in range(MOST_ROUNDS)] + [7.0] * 10) is None, "not beyond the last round"
    assert first_steady([0.0] * 5) is None and steadiness([1.0] * 4) is None


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=5), st.floats(0.001, 1000))
def test_the_verdict_does_not_depend_on_the_unit(rounds, scale):
    one, other = steadiness(rounds), steadiness([value * scale for value in rounds])
    assert one is not None and other is not None
    assert other.spread / other.mean == pytest.approx(one.spread / one.mean)
    assert other.excursion / other.mean == pytest.approx(one.excursion / one.mean, abs=1e-9)


def setting_of(**asked: object) -> PtsSetting:
    (drive,) = PtsWorkload.model_validate({"tests": ["iops"], **asked}).drives(BOUNDS)
    assert isinstance(drive.setting, PtsSetting)
    return drive.setting


def test_the_matrix_is_of_seven_mixes_and_eight_sizes_and_its_writes_of_4k_are_tracked():
    made = setting_of()
    assert len(made.cells) == 56 and made.tracked == (0, "4k") and made.passes == 2 and made.most_rounds == 25
    options = made.at(65, "8k").options
    assert (options["rw"], options["rwmixread"], options["bs"]) == ("randrw", "65", "8k")
    drives = PtsWorkload.model_validate({}).drives(BOUNDS)
    assert [(d.setting.params["test"], d.setting.params["block_sizes"]) for d in drives][1:] == [
        ("throughput", "1M"), ("throughput", "128k"), ("latency", "8k,4k,512"), ("write-saturation", "4k"),
    ]  # fmt: skip


def test_preconditioning_and_saturation_by_capacity_write_so_many_bytes_whatever_time_it_takes():
    drives = {"d1": FoundDrive("server:d1", "/dev/nvme0n1", 1 << 30)}
    lines = set(job_file(setting_of().preconditioning, drives).splitlines())
    assert {"rw=write", "bs=128k", "loops=2", f"size={1 << 30}", "filename=/dev/nvme0n1"} <= lines and "time_based=1" not in lines
    made = setting_of(tests=["write-saturation"], saturation_passes=4)
    (cell,) = made.cells
    lines = set(job_file(made.at(*cell), drives).splitlines())
    assert {"rw=randwrite", "bs=4k", "loops=4", "norandommap=1", f"size={1 << 30}"} <= lines and "time_based=1" not in lines
    assert (made.fills, made.writing) == (4, ()), "a plan counts its bytes, not its seconds"
    timed = setting_of(tests=["write-saturation"], saturation="10s")
    assert "capacities" not in timed.params and "loops" not in timed.at(*cell).options and timed.writing == ((10.0, 4096),)


def report(iops: float) -> bytes:
    job = {
        "jobname": "server:d1",
        "write": {"total_ios": iops, "iops": iops, "bw_bytes": iops * 4096, "clat_ns": {"mean": 1e9 / iops, "max": 9.0, "N": 1}},
    }
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]}).encode()


def raw_of(rounds: list[float]) -> dict[str, bytes]:
    return {f"round-{n:02d}-reads-0-4k-fio-server.json": report(iops) for n, iops in enumerate(rounds, 1)}


def test_verdict_and_figures_are_worked_out_again_from_the_raw_rounds_alone():
    made = setting_of(block_sizes=["4k"], reads_percent=[0])
    rounds = again(made, raw_of([900, 500, 100, 104, 98, 101, 97]))
    assert state_of(made, rounds) == STEADY
    figures = figures_of(made, rounds)
    assert figures["steady/iops"] == figures["r0_4k/iops"] == pytest.approx(100) and figures["rounds"] == 7
    unsteady = again(made, raw_of([100, 200, 300, 400, 500]))
    assert state_of(made, unsteady) == NOT_REACHED
    assert not figures.keys() & {name for name in figures_of(made, unsteady) if name.endswith("steady/iops")}, "nothing compares two states"


def test_a_record_whose_state_its_rounds_do_not_give_is_found_out():
    made = setting_of(block_sizes=["4k"], reads_percent=[0])
    cell = Cell(mode="raw", factors={"mode": "raw"}, tool="fio", links=("server:d1",), setting=made, repeat=1)
    raw = raw_of([100, 200, 300, 400, 500])
    with pytest.raises(CannotRecompute, match="its rounds are not reached, and the record says steady"):
        pts_again(KeptTrial(cell, raw, {"state": STEADY}, {}))
    assert pts_again(KeptTrial(cell, raw, {"state": NOT_REACHED}, {}))["server:d1"]["rounds"] == 5
    with pytest.raises(CannotRecompute, match="0 rounds are kept"):
        pts_again(KeptTrial(cell, {}, {"state": STEADY}, {}))


def test_what_may_not_or_cannot_be_done_is_refused_with_its_place(tmp_path, golden):
    said = [
        ("{}", "{by-id: nvme-ACME_1}"), ("{purge: blkdiscard}", DESTROY), ("{purge: hdparm}", DESTROY), ("{tests: []}", DESTROY),
        ("{tests: [iops, iops]}", DESTROY), ("{most_rounds: 26}", DESTROY), ("{block_sizes: much}", DESTROY), ("{saturation_passes: 0}", DESTROY),
        ("{saturation_passes: 4, jobs: 2}", DESTROY), ("{saturation_passes: 4, saturation: 1h}", DESTROY), ("{duration: 0s}", DESTROY),
    ]  # fmt: skip

    def load(body, drive):
        (tmp_path / "testbed.yaml").write_text(f"testbed: disks\nhosts:\n  server: {{local: true, drives: {{d1: {drive}}}}}\n")
        text = f"experiment: x\ntestbed: testbed.yaml\nfactors: {{mode: [as-found]}}\nworkloads:\n  - pts: {body}\n"
        (tmp_path / "e.yaml").write_text(text)
        load_experiment(tmp_path / "e.yaml")

    golden.check("refusals-pts.txt", refusals(SpecRefused, [partial(load, *of) for of in said], tmp_path))

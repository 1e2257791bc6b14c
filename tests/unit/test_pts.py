"""Steady state by the vectors of the specification's readings, the state of a trial worked out again from raw rounds, what is refused."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disk_experiments import loaded
from dutlab.errors import SpecRefused
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.pts import PtsWorkload
from dutlab.spec.workloads.pts_setting import FRESH, NOT_REACHED, STEADY
from dutlab.stats.steady import MOST_ROUNDS, first_all_steady, first_steady, steadiness
from dutlab.tools.fio.again import pts_again
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.program import job_file
from dutlab.tools.fio.pts import again
from dutlab.tools.fio.pts_verdict import figures_of, operating_points, state_of, tables_of, windows_of
from dutlab.tools.raw_figures import CannotRecompute, KeptTrial
from pts_reports import BOUNDS, log_of, report, setting_of
from refusal import refusals

DESTROY = "{by-id: nvme-ACME_1, destroy: yes}"


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
    rising = steadiness([100, 104, 108, 112, 116])
    assert rising is not None and (rising.slope, rising.intercept, rising.correlation) == pytest.approx((4, 96, 1)), "of 4·R + 96"
    slower = first_steady([1000.0] * 3 + [900.0, 600.0] + [400.0] * 6)
    assert slower is not None and slower.first == 6 and slower.mean == 400, "not before it has become slow"
    assert first_steady([2.0**n for n in range(MOST_ROUNDS)] + [7.0] * 10) is None, "not beyond the last round"
    assert first_steady([0.0] * 5) is None and steadiness([1.0] * 4) is None


def test_all_tracked_variables_must_be_steady_in_the_same_window():
    flat, late = [100.0] * 8, [900.0, 500.0, 300.0, *[100.0] * 5]
    assert first_all_steady([flat, flat]) == 5
    assert first_all_steady([flat, late, flat]) == 8, "the slowest of them counts"
    assert first_all_steady([flat, late[:7]]) is None and first_all_steady([]) is None


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=5), st.floats(0.001, 1000))
def test_the_verdict_does_not_depend_on_the_unit(rounds, scale):
    one, other = steadiness(rounds), steadiness([value * scale for value in rounds])
    assert one is not None and other is not None
    assert other.spread / other.mean == pytest.approx(one.spread / one.mean)
    assert other.excursion / other.mean == pytest.approx(one.excursion / one.mean, abs=1e-9)


def test_the_matrix_is_of_seven_mixes_and_eight_sizes_and_three_of_its_cells_are_tracked():
    made = setting_of()
    assert len(made.cells) == 56 and made.tracked == ((0, "4k"), (65, "64k"), (100, "1M")) and made.passes == 2 and made.most_rounds == 25
    assert (made.depth, made.jobs, made.tracked_figure) == (32, 4, "iops")
    options = made.at(65, "8k").options
    assert (options["rw"], options["rwmixread"], options["bs"], options["numjobs"]) == ("randrw", "65", "8k", "4")
    assert setting_of(block_sizes=["8k"], reads_percent=[50, 5]).tracked == ((5, "8k"),), "without any of the three, the most writes"
    drives = PtsWorkload.model_validate({}).drives(BOUNDS)
    assert [(d.setting.params["test"], d.setting.params["block_sizes"]) for d in drives][1:] == [
        ("throughput", "1M"), ("throughput", "128k"), ("latency", "8k,4k,512"), ("write-saturation", "4k"),
    ]  # fmt: skip


def test_each_test_tracks_its_own_figure_and_has_its_own_demand():
    assert setting_of(tests=["throughput"], block_sizes=["1M"]).tracked_figure == "bytes_per_s"
    slow = setting_of(tests=["latency"])
    assert (slow.tracked_figure, slow.tracked, slow.depth, slow.jobs) == ("clat_mean_ns", ((0, "4k"),), 1, 1)
    demand = setting_of(tests=["demand-intensity"])
    assert len(demand.demands) == 49 and demand.demands[0] == (32, 32) and demand.demands[-1] == (1, 1) and demand.passes == 0
    mixed = setting_of(tests=["composite"]).demanding(4, 8, 60).options
    assert (mixed["rwmixread"], mixed["numjobs"], mixed["iodepth"]) == ("40", "4", "8") and "bs" not in mixed
    shares = [int(part.partition("/")[2]) for part in mixed["bssplit"].split(":")]
    assert sum(shares) == 100 and mixed["random_distribution"] == "zoned:50/5:30/15:20/80"
    assert setting_of(tests=["composite"]).saturating(60).options["rw"] == "randwrite", "preconditioned by writes only"
    idle = setting_of(tests=["host-idle-recovery"])
    assert [(idle.pausing(w).options["thinktime"], idle.pausing(w).duration_s) for w in idle.waits_s][:2] == [
        ("5000000", 3602.5),
        ("10000000", 5402.5),
    ]
    cross = setting_of(tests=["cross-stimulus-recovery"])
    assert [(cross.stimulus(n).options["rw"], cross.stimulus(n).options["bs"], cross.stimulus(n).duration_s) for n in range(3)] == [
        ("write", "1M", 28800), ("randwrite", "8k", 21600), ("write", "1M", 28800),
    ]  # fmt: skip


def test_preconditioning_and_saturation_by_capacity_write_so_many_bytes_whatever_time_it_takes():
    drives = {"d1": FoundDrive("server:d1", "/dev/nvme0n1", 1 << 30)}
    lines = set(job_file(setting_of().preconditioning, drives).splitlines())
    assert {"rw=write", "bs=128k", "loops=2", f"size={1 << 30}", "filename=/dev/nvme0n1"} <= lines and "time_based=1" not in lines
    assert setting_of(active_range=75).preconditioning.options["loops"] == "3", "2 × the capacity are written, within 75 % of it"
    made = setting_of(tests=["write-saturation"], saturation_passes=4, jobs=2)
    lines = set(job_file(made.filling(60.0, 1 << 30), drives).splitlines())
    assert {"rw=randwrite", "bs=4k", "loops=1", f"io_size={1 << 29}", "norandommap=1"} <= lines and "time_based=1" not in lines
    assert (made.fills, made.writing) == (4, ()), "a plan counts its bytes, not its seconds"
    usual = setting_of(tests=["write-saturation"])
    assert (usual.fills, usual.duration_s, usual.interval_s, usual.histogram_s) == (4, 6 * 3600, 1800, 1200)
    timed = setting_of(tests=["write-saturation"], saturation="10s", histogram="0s")
    assert "capacities" not in timed.params and "loops" not in timed.filling(10.0, 0).options and timed.writing == ((10.0, 4096),)


def raw_of(rounds: list[float]) -> dict[str, bytes]:
    return {f"round-{n:02d}-reads-0-4k-fio-server.json": report(iops) for n, iops in enumerate(rounds, 1)}


def test_verdict_and_figures_are_worked_out_again_from_the_raw_rounds_alone():
    made = setting_of(block_sizes=["4k"], reads_percent=[0])
    rounds = again(made, raw_of([900, 500, 100, 104, 98, 101, 97]))
    assert state_of(made, rounds) == STEADY
    figures = figures_of(made, rounds)
    assert figures["steady/iops"] == figures["r0_4k/iops"] == pytest.approx(100) and figures["rounds"] == 7
    ((phase, variable, window),) = windows_of(made, rounds)
    assert (phase, variable, window.first, window.last) == ("rounds", "r0_4k", 3, 7)
    unsteady = again(made, raw_of([100, 200, 300, 400, 500]))
    assert state_of(made, unsteady) == NOT_REACHED
    assert not figures.keys() & {name for name in figures_of(made, unsteady) if name.endswith("steady/iops")}, "nothing compares two states"


def test_latency_is_steady_by_its_latency_not_by_its_iops():
    made = setting_of(tests=["latency"], block_sizes=["4k"], reads_percent=[0], histogram="0s")
    raw = {f"round-{n:02d}-reads-0-4k-fio-server.json": report(1000, clat_ns=ns) for n, ns in enumerate([50e3, 90e3, 60e3, 80e3, 55e3], 1)}
    assert state_of(made, again(made, raw)) == NOT_REACHED
    assert state_of(made, again(made, {name: report(1000, clat_ns=60e3) for name in raw})) == STEADY


def test_write_saturation_is_steady_or_fresh_and_says_how_much_it_wrote():
    made = setting_of(tests=["write-saturation"], saturation_passes=4, histogram="0s")
    raw = raw_of([1000, 400, 200, 100, 100, 100, 100, 100]) | {"rest-01-fio-server.json": report(700)}
    parts = again(made, raw)
    figures = figures_of(made, parts)
    assert state_of(made, parts) == STEADY and figures["steady/iops"] == 100 and figures["first/iops"] == 1000
    assert figures["written_bytes"] == pytest.approx(4096 * (1000 + 400 + 200 + 500 + 700)), "each report lasted a second"
    assert state_of(made, again(made, raw_of([1000, 100]))) == FRESH
    assert figures_of(made, again(made, raw_of([1000, 100])))["fresh/iops"] == pytest.approx(550)


def test_pauses_are_judged_by_the_writes_outside_of_them():
    made = setting_of(tests=["host-idle-recovery"], pauses=["5s", "10s"], bursts=2, burst="5s")
    raw = {f"pre-{n:02d}-fio-server.json": report(100) for n in range(1, 6)}
    raw |= {f"{part}-fio-server.json": report(iops, seconds=12.5) for part, iops in
            {"pause-5s": 120, "base-5s": 100, "pause-10s": 180, "base-10s": 90}.items()}  # fmt: skip
    parts = again(made, raw)
    figures = figures_of(made, parts)
    assert state_of(made, parts) == STEADY and figures["steady/iops"] == 100 and figures["rounds"] == 5
    assert [figures[f"pause{wait}s/after_idle_ratio"] for wait in (5, 10)] == pytest.approx([1.2, 2.0])
    del raw["base-10s-fio-server.json"]
    with pytest.raises(ValueError, match="its figures"):
        again(made, raw)


def test_recovery_ends_when_the_third_load_is_as_fast_as_the_first_was():
    made = setting_of(tests=["cross-stimulus-recovery"], stimuli=["10s", "10s", "10s"], duration="2s")
    raw = {f"load-{n}-fio-server.json": report(100, seconds=10) for n in (1, 2, 3)}
    raw |= {
        "load-1-fio-server-server-d1_bw.log": log_of([900, 900, *[500] * 10]),
        "load-3-fio-server-server-d1_bw.log": log_of([200] * 5 + [460] * 7),
    }
    parts = again(made, raw)
    figures = figures_of(made, parts)
    assert state_of(made, parts) == FRESH and figures["load1_end/bytes_per_s"] == 500 * 1024
    assert figures["recovery_s"] == 8, "the bin of 2 s from second 6 is the first with 90 % of 500"
    slow = again(made, raw | {"load-3-fio-server-server-d1_bw.log": log_of([200] * 12)})
    assert "recovery_s" not in figures_of(made, slow)


def test_operating_points_are_the_most_iops_within_the_latency_the_least_demand_and_the_middle():
    made = setting_of(tests=["demand-intensity"], threads=[1, 4], depths=[1, 8])
    of = {(4, 8): (1000, 9e6), (4, 1): (520, 3e6), (1, 8): (900, 4e6), (1, 1): (100, 1e6)}
    raw = {f"pre-{n:02d}-fio-server.json": report(1000) for n in range(1, 6)}
    raw |= {f"round-{n:02d}-t{t}-q{q}-fio-server.json": report(iops, clat_ns=ns) for n in range(1, 6) for (t, q), (iops, ns) in of.items()}
    parts = again(made, raw)
    assert operating_points(made, parts) == {"max": (1, 8), "mid": (4, 1), "min": (1, 1)}, "(4, 8) takes longer than 5 ms"
    assert state_of(made, parts) == STEADY and figures_of(made, parts)["steady/iops"] == 1000
    tables = tables_of(made, parts)
    assert len(tables["demands"]) == 20 and [row["phase"] for row in tables["windows"]] == ["preconditioning", "rounds"]
    for n in range(1, 6):
        raw[f"pre-{n:02d}-fio-server.json"] = report(1000 / n)
    assert state_of(made, again(made, raw)) == NOT_REACHED, "both phases must be steady"


def test_a_record_whose_state_its_rounds_do_not_give_is_found_out():
    made = setting_of(block_sizes=["4k"], reads_percent=[0])
    cell = Cell(mode="raw", factors={"mode": "raw"}, tool="fio", links=("server:d1",), setting=made, repeat=1)
    raw = raw_of([100, 200, 300, 400, 500])
    with pytest.raises(CannotRecompute, match="steady"):
        pts_again(KeptTrial(cell, raw, {"state": STEADY}, {}))
    assert pts_again(KeptTrial(cell, raw, {"state": NOT_REACHED}, {}))["server:d1"]["rounds"] == 5
    with pytest.raises(CannotRecompute, match="0 parts"):
        pts_again(KeptTrial(cell, {}, {"state": STEADY}, {}))


def test_what_may_not_or_cannot_be_done_is_refused_with_its_place(tmp_path, golden):
    said = [
        ("{}", "{by-id: nvme-ACME_1}"), ("{purge: blkdiscard}", DESTROY), ("{purge: hdparm}", DESTROY), ("{tests: []}", DESTROY),
        ("{tests: [iops, iops]}", DESTROY), ("{most_rounds: 26}", DESTROY), ("{block_sizes: much}", DESTROY), ("{saturation_passes: 0}", DESTROY),
        ("{saturation_passes: 4, saturation: 1h}", DESTROY), ("{duration: 0s}", DESTROY), ("{tests: [idle]}", DESTROY),
        ("{active_range: 0}", DESTROY), ("{write_cache: through}", DESTROY), ("{interval: 1s}", DESTROY), ("{stimuli: [1h, 1h]}", DESTROY),
        ("{pauses: []}", DESTROY), ("{burst: 1s}", DESTROY), ("{threads: [0]}", DESTROY), ("{demand_block: big}", DESTROY),
        ("{write_cache: off}", "{file: /tmp/d1.img, size: 64M, destroy: yes}"),
    ]  # fmt: skip

    calls = [partial(loaded, tmp_path, "pts", body, f"d1: {drive}") for body, drive in said]
    golden.check("refusals-pts.txt", refusals(SpecRefused, calls, tmp_path))

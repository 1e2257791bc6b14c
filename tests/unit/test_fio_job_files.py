"""A job file of the user's own: jobs that run one after another are results of their own, and nothing of the file is dropped in silence."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from dutlab.cli.plan import plan
from dutlab.errors import SpecRefused
from dutlab.hosts.local import LocalHost
from dutlab.plan.cell import Cell
from dutlab.spec.experiment import Experiment
from dutlab.spec.loader import load_experiment
from dutlab.spec.workloads.fio import FioSetting, FioWorkload
from dutlab.spec.workloads.fio_job import results, stages
from dutlab.subject import figure_name
from dutlab.tools.fio import program
from dutlab.tools.fio.again import fio_again
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.output import jobs_of, total
from dutlab.tools.fio.program import FioResult, job_file, measure
from dutlab.tools.raw_figures import KeptTrial

FOUR = """[global]
bs=4k
[seq-read]
rw=read
[seq-write]
stonewall
rw=write
[rand-read]
stonewall
rw=randread
[rand-write]
stonewall
rw=randwrite
"""
DRIVE = "server:d1"


def setting(job: str, **given: Any) -> FioSetting:
    return FioSetting(options={}, job=job, **{"writes": True, "ramp_s": 5.0, "duration_s": 30.0, **given})


def loaded(folder: Path, body: dict[str, object]) -> Experiment:
    (folder / "t.yaml").write_text("testbed: t\nhosts: {server: {local: true, drives: {d1: {by-id: nvme-ACME_1, destroy: yes}}}}\n")
    (folder / "e.yaml").write_text(
        f"experiment: e\ntestbed: t.yaml\nfactors: {{mode: [as-found]}}\nworkloads:\n  - fio: {json.dumps(body)}\n"
    )
    return load_experiment(folder / "e.yaml")


def job(name: str, way: str, iops: float, ns: int) -> dict[str, object]:
    clat = {"mean": float(ns), "max": ns, "bins": {str(ns): 100_000}}
    return {"jobname": name, way: {"total_ios": 100_000, "iops": iops, "bw_bytes": iops * 4096, "runtime": 30_000, "clat_ns": clat}}


REPORT = {
    "jobs": [
        job("seq-read", "read", 7994.0, 1000), job("seq-write", "write", 5000.0, 2000), job("rand-read", "read", 382.0, 9_000_000),
        job("rand-write", "write", 100.0, 8000),
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FOUR, (("seq-read",), ("seq-write",), ("rand-read",), ("rand-write",))),
        ("[global]\nstonewall\n[a]\n[b]\n", (("a",), ("b",))),
        ("[a]\n[b]\nwait_for_previous\n", (("a",), ("b",))),
        ("[a]\n[b]\n[c]\nstonewall=1\n[d]\n", (("a", "b"), ("c", "d"))),
        ("[a]\n[b]\nwait_for=a\n[c]\n[d]\nwait_for=b\n", (("a", "c"), ("b",), ("d",))),
        ("[a]\n[b]\nstonewall=0\n", (("a", "b"),)),
    ],
)
def test_jobs_that_wait_for_others_are_of_a_later_stage(text: str, expected: tuple[tuple[str, ...], ...]) -> None:
    assert stages(text) == expected
    of = setting(text)
    assert of.loaded_s == 35.0 * len(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FOUR, {"seq_read": ("seq-read",), "seq_write": ("seq-write",), "rand_read": ("rand-read",), "rand_write": ("rand-write",)}),
        ("[a]\nrw=read\n", {"": ("a",)}),
        ("[a]\n[b]\n", {"": ("a", "b"), "a": ("a",), "b": ("b",)}),
        ("[global]\ngroup_reporting\n[a]\n[b]\n", {"": ("a", "b")}),
        ("[a]\n[b]\ngroup_reporting=1\n[c]\nstonewall\n", {"stage_1": ("a", "b"), "a": ("a",), "c": ("c",)}),
    ],
)
def test_only_jobs_that_run_at_the_same_time_are_added_up(text: str, expected: dict[str, tuple[str, ...]]) -> None:
    assert results(text) == expected


def test_each_stage_counts_in_the_time_of_a_trial_and_in_what_is_written() -> None:
    work = FioWorkload.model_validate({"job": FOUR, "duration": "30s", "ramp": "5s"})
    ((of, seconds),) = work.settings()
    assert (of.loaded_s, seconds) == (140.0, 140.0)
    assert of.writing == ((35.0, None, None), (35.0, None, None))
    assert setting("[a]\nrw=read\n", writes=False).writing == ()


def test_what_fio_is_given_keeps_the_order_of_jobs() -> None:
    text = job_file(setting(f"{FOUR}[last]\nwait_for=rand-write\nrw=read\nloops=2\n"), {"d1": FoundDrive(DRIVE, "/dev/nvme0n1", 1 << 30)})
    assert stages(text) == (*stages(FOUR), ("last",))
    assert text.count("time_based=1") == 4  # a job with loops ends after them


def test_results_of_stages_are_never_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    of = setting(FOUR + "[idle]\nstonewall\nrw=read\n")
    raw = {"fio-server.json": json.dumps(REPORT).encode()}
    jobs = jobs_of(REPORT)

    async def ran(*_: object) -> FioResult:
        return FioResult({"server": "3.33"}, {DRIVE: total(jobs)}, (), raw, (), {}, {DRIVE: jobs})

    async def drives(*_: object) -> dict[str, dict[str, FoundDrive]]:
        return {"server": {"d1": FoundDrive(DRIVE, "/dev/nvme0n1", 1 << 30)}}

    monkeypatch.setattr(program, "run", ran)
    monkeypatch.setattr(program, "drives_of", drives)
    cell = Cell(mode="raw", factors={"mode": "raw"}, tool="fio", links=(DRIVE,), setting=of, repeat=1)
    measured = asyncio.run(measure(SimpleNamespace(hosts={"server": LocalHost("server")}), cell))  # type: ignore[arg-type] -- the rest is replaced
    figures = measured.figures[DRIVE]
    rates = {name: value for name, value in figures.items() if figure_name(name).measure == "iops"}
    expected = {"seq_read/iops.read": 7994.0, "seq_write/iops.write": 5000.0, "rand_read/iops.read": 382.0, "rand_write/iops.write": 100.0}
    assert rates == expected
    assert (figures["seq_read/clat_p99_ns.read"], figures["rand_read/clat_p99_ns.read"]) == (1000.0, 9_000_000.0)
    assert [row["direction"] for row in measured.tables["latency_bins"]] == [
        "seq_read-read", "seq_write-write", "rand_read-read", "rand_write-write",
    ]  # fmt: skip
    assert len(measured.notes) == 1 and "idle" in measured.notes[0]
    assert fio_again(KeptTrial(cell, raw, {}, {}))[DRIVE] == figures


def test_jobs_at_the_same_time_are_added_up_and_told_apart() -> None:
    figures = program.figures_of(program.results_of(setting("[seq-read]\nrw=read\n[rand-read]\nrw=randread\n"), jobs_of(REPORT)))
    rates = {name: value for name, value in figures.items() if figure_name(name).measure == "iops"}
    assert rates == {"iops.read": 8376.0, "seq_read/iops.read": 7994.0, "rand_read/iops.read": 382.0}


@pytest.mark.parametrize(
    ("lines", "place", "named"),
    [
        ("[global]\nruntime=900\n[a]\nrw=read\n[b]\nrw=read\n", "job", ("every job", "runtime=900", "duration: 900s")),
        ("[a]\nrw=read\nruntime=15m\n[b]\nrw=read\n", "job", ("[a]", "runtime=15m", "duration: 15m")),
        ("[a]\nrw=read\nramp_time=7\n", "job", ("ramp_time=7", "ramp: 7s")),
        ("[a]\nrw=read\nwait_for=b\n[b]\nrw=read\n", "job", ("wait_for=b",)),
        ("[a]\nrw=read\n[b]\nstartdelay=5\nrw=read\n", "job", ("[b] startdelay",)),
        ("[a-b]\nrw=read\n[a_b]\nrw=read\n", "job", ("a_b",)),
        ("[stage-1]\nrw=read\n", "job", ("stage_1",)),
    ],
)
def test_what_a_file_asks_and_dutlab_does_otherwise_is_refused_with_its_place(lines, place, named, tmp_path) -> None:
    with pytest.raises(SpecRefused) as refused:
        loaded(tmp_path, {"job": lines})
    (fault,) = refused.value.faults
    assert fault.path.endswith(place) and all(word in fault.what for word in named)


def test_drives_of_one_trial_are_loaded_at_once(tmp_path: Path) -> None:
    with pytest.raises(SpecRefused) as refused:
        loaded(tmp_path, {"options": {"rw": "read", "stonewall": 1}})
    assert [fault.path.rpartition(".")[2] for fault in refused.value.faults] == ["stonewall"]


def test_times_that_agree_are_taken_and_what_dutlab_sets_is_named(tmp_path: Path) -> None:
    text = "[global]\nruntime=1m\ntime_based\nfilename=/dev/sdx\nsize=4G\n[a]\nrw=read\n"
    ((of, _),) = loaded(tmp_path, {"job": text, "duration": "60s"}).workloads[0].settings()  # type: ignore[attr-defined]
    assert "filename=/dev/sdx" in of.not_taken and "size=4G" in of.not_taken
    assert "runtime" not in of.not_taken and "time_based" not in of.not_taken
    assert setting(FOUR).not_taken == ""
    done = CliRunner().invoke(plan, [str(tmp_path / "e.yaml")])
    assert (done.exit_code, done.output.count("filename=/dev/sdx")) == (0, 1), done.output

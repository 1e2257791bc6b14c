"""Reports of the least that a run can hold: one mode as it was found, one link or drive, one repeat. No page shows what only Python says."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from dutlab.choices import STYLES
from dutlab.cli.import_files import import_files
from dutlab.cli.report import report
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.report.gather import gather
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import RunReport
from dutlab.report.model.table import Figure
from dutlab.report.sections.headline import compared
from dutlab.spec.loader import load_experiment
from dutlab.spec.workloads import model_of
from dutlab.spec.workloads.imported_setting import ImportedSetting
from dutlab.spec.workloads.setting import Setting
from dutlab.workloads import plug_of, settable
from fake_run import Wanted, build

OF_PYTHON = re.compile(r"\(median=| object at 0x|\bNone\b|\bnan\b|\binf\b|Undefined")
FIGURES = {
    "goodput_bps": 941.2e6, "received_pps": 346.3e3, "max_received_pps": 346.3e3, "ndr/lower_pps": 3e5, "throughput_pps": 3e5,
    "latency_p99_ns": 41.5e3, "loss_ratio": 0.002, "iops.read": 8375.84, "clat_p99_ns.read": 996.6e3, "peak/iops": 9000.0,
    "steady/iops": 7000.0, "rebuilding/iops": 500.0, "rtt_p50_ns": 20e3, "duration_s": 12.0, "path_mtu_bytes": 1500.0, "payload_bytes": 1472.0,
    "reference_pps": 1e5, "made_pps": 3e5, "concurrent_flows": 900.0, "setup_lower_per_s": 100.0,
}  # fmt: skip
EXAMPLES = Path(__file__).parents[2] / "examples"
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def pages(run: Path) -> dict[str, str]:
    """Every form of a report: the files, what is printed, and each style that the run has."""
    made = CliRunner().invoke(report, [str(run)])
    assert made.exit_code == 0, made.output
    found = {path.name: path.read_text() for path in (run / "report").iterdir() if path.suffix in {".html", ".md", ".csv"}}
    for words in (["--print"], *(["--style", style] for style in STYLES)):
        done = CliRunner().invoke(report, [str(run), *words])
        if done.exit_code == 0:  # a style refuses a run without its workload
            found[" ".join(words)] = done.output
    assert {"report.html", "--print"} <= set(found)
    return found


def faults(found: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, text[max(0, at.start() - 40) : at.end() + 40]) for name, text in found.items() for at in OF_PYTHON.finditer(text)]


def settings() -> list[Setting]:
    """One of each workload that an experiment can ask for, of an example where there is one, and of a workload of other tools."""
    links = {name: SimpleNamespace(ends=("source", "sink"), hosts=("source", "sink")) for name in ("a", "b", "server:d1")}
    models = {name: model_of(name).model_validate({}) for name in ("generation", "quick-test", "datagrams")}
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        with suppress(InputError):  # a testbed, a workflow
            models |= {workload.kind: workload for workload in load_experiment(path).workloads}
    assert set(models) == set(settable())
    found = [next(iter(model.drives(links))).setting for model in models.values()]  # type: ignore[arg-type]
    return [*found, ImportedSetting(of="flent", said={"test": "rrul"})]


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.workload)
def test_one_result_of_a_workload_has_a_page_without_objects_of_python(setting: Setting, tmp_path: Path) -> None:
    workload = setting.workload
    place = "server:d1" if plug_of(workload).place == "drive" else "a"
    cell = Cell(mode="as-found", factors={"mode": "as-found"}, tool=workload, links=(place,), setting=setting, repeat=1)
    trial = Imported(cell, Measured({place: FIGURES}))
    assert faults(pages(write_imported(tmp_path, workload, [trial], command=(), now=NOW).path)) == []


def test_one_mode_of_a_measured_run_has_a_page_without_objects_of_python(tmp_path: Path) -> None:
    run = build(tmp_path, Wanted(repeats=1, modes={"router": "as-found"}, sizes=(64,), bad_luck=False, seconds=2))
    assert faults(pages(run)) == []


# ---- A result of 0 is called out and has no rank


PAIRS = [("pc1", "pc2"), ("pc2", "pc1"), ("pc1", "pc3"), ("pc3", "pc1")]


def matrix(folder: Path, rates: list[float]) -> RunReport:
    rows = "".join(f"matrix,as-found,{a},{b},{rate}\n" for (a, b), rate in zip(PAIRS, rates, strict=True))
    (folder / "pairs.csv").write_text(f"workload,mode,client,server,goodput_mbps\n{rows}")
    done = CliRunner().invoke(import_files, ["figures", str(folder / "pairs.csv"), "--runs", str(folder / "runs")])
    assert done.exit_code == 0, done.output
    (run,) = (folder / "runs").iterdir()
    return gather(run, run)


@pytest.mark.parametrize(
    ("rates", "ranked", "silent"),
    [
        ([900.0, 800.0, 700.0, 0.0], "pc1 to pc2", {"pc3"}),
        ([900.0, 0.0, 0.0, 0.0], None, {"pc2", "pc3"}),
        ([0.0, 0.0, 0.0, 0.0], None, {"pc1", "pc2", "pc3"}),
        ([900.0, 800.0, 700.0, 600.0], "pc1 to pc2", set()),
    ],
)
def test_a_pair_through_which_nothing_came_is_no_fastest_and_no_slowest(rates, ranked, silent, tmp_path) -> None:
    report = matrix(tmp_path, rates)
    section, _ = report.sections  # the other says what was imported
    extremes = [words for words in section.words if "difference" in words]
    assert [ranked in words for words in extremes if ranked] == ([True] if ranked else [])
    assert all("pc3 to pc1" not in words or 0.0 not in rates for words in extremes)
    called = [words for words in report.answer.fast if "of 0" in words]
    assert len(called) == bool(silent)
    assert all(host in words for words in called for host in silent)
    assert not any("from 0" in words or " 0.0 Mb/s" in words for words in report.answer.fast)


def test_a_mode_with_a_result_of_0_is_not_compared() -> None:
    def figure(median: float) -> Figure:
        return Figure(median, median, median, False, 1, 1, (1,))

    book = NoteBook([])
    found = compared("goodput", [("nat", figure(0.0)), ("router", figure(9e8)), ("filter", figure(8e8))], "goodput_bps", book)
    assert found is not None and [of.label for of in found.figures] == ["router", "filter"]
    assert compared("goodput", [("nat", figure(0.0)), ("router", figure(0.0))], "goodput_bps", book) is None

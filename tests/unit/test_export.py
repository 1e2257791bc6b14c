"""Runs for other programs: metrics from events, and what DuckDB and our own imports make of what is exported."""

from __future__ import annotations

import csv
import io
from datetime import datetime
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from dutlab.cli.export import export
from dutlab.errors import InputError
from dutlab.events import EVENTS, DoubtFound, RunEnded
from dutlab.interop.exports import SAMPLE_COLUMNS
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.interop.importers import read_files
from dutlab.interop.loadtest_json import from_bytes, to_bytes
from dutlab.interop.loadtest_run import imported
from dutlab.interop.metrics import RunMetrics
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted, build
from loadtest_files import ramp_file
from run_events import BEGUN, NOW, begun, ended, reading, tell


def values(text: str) -> dict[str, float]:
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if not line.startswith("#")}


def of(text: str, name: str) -> list[float]:
    return [value for labels, value in values(text).items() if labels.startswith(name + "{")]


def said(*words: object) -> Result:
    return CliRunner().invoke(export, [str(w) for w in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("runs"), Wanted(repeats=1, seconds=2, sizes=(64,), cores=1, bad_luck=False))


def test_metrics_follow_a_run_from_event_to_event(tmp_path: Path) -> None:
    tell(tmp_path / "r", BEGUN)
    found = RunMetrics(tmp_path / "r")
    assert (of(found.text(), "dutlab_run_trials"), of(found.text(), "dutlab_run_left_seconds")) == ([4], [60])
    tell(tmp_path / "r", begun(1), reading(5e5), reading(6e5), reading(7e5).model_dump_json().encode()[:40])
    assert of(found.text(), "dutlab_reading") == [6e5] and of(found.text(), "dutlab_run_left_seconds") == [20]
    assert 'mode="nat",workload="sweep",tool="engine",links="a+b"' in found.text()
    tell(tmp_path / "r", reading(7e5).model_dump_json().encode()[40:] + b"\n")
    assert of(found.text(), "dutlab_reading") == [7e5]
    tell(tmp_path / "r", DoubtFound(at=NOW, trial=1, kind="X", grade="severe", text="x"), ended(1), begun(2), ended(2, "failed"))
    text = found.text()
    assert of(text, "dutlab_figure") == [1e6] and of(text, "dutlab_trial_info") == []
    assert of(text, "dutlab_run_ended_trials") == [1, 1, 0, 0] and of(text, "dutlab_run_doubts") == [1, 0, 0]
    tell(tmp_path / "r", RunEnded(at=NOW, status="finished", measured=1, failed=1, refused=0, disturbed=0))
    assert of(found.text(), "dutlab_reading") == [] and of(found.text(), "dutlab_run_left_seconds") == [0]
    assert found.text() == RunMetrics(tmp_path / "r").text()


def test_events_that_begin_anew_are_read_anew(tmp_path: Path) -> None:
    tell(tmp_path / "r", BEGUN, begun(1), ended(1))
    found = RunMetrics(tmp_path / "r")
    assert of(found.text(), "dutlab_figure") == [1e6]
    (tmp_path / "r" / EVENTS).unlink()
    tell(tmp_path / "r", BEGUN)
    assert of(found.text(), "dutlab_figure") == []


def test_a_folder_without_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no events"):
        RunMetrics(tmp_path).text()


def test_a_file_for_the_textfile_collector_is_there_whole(tmp_path: Path) -> None:
    tell(tmp_path / "r", BEGUN)
    assert said("metrics", tmp_path / "r", "-o", tmp_path / "dutlab.prom", "--follow").exit_code == 0  # nobody carries it out: written once
    assert (tmp_path / "dutlab.prom").read_text() == RunMetrics(tmp_path / "r").text()
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_link_with_the_name_of_a_temporary_file_is_not_written_through(run: Path, tmp_path: Path) -> None:
    (tmp_path / ".s.csv.part").symlink_to(tmp_path / "theirs")
    said("csv", run, "-o", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").stat().st_size and not (tmp_path / "theirs").exists()


def test_every_sample_is_in_parquet_csv_and_line_protocol_alike(run: Path, tmp_path: Path) -> None:
    there = duckdb.sql(f"SELECT count(*), sum(value) FROM '{run}/trials/*/samples.parquet'").fetchall()[0]
    said("parquet", run, "-o", tmp_path / "s.parquet")
    parquet = duckdb.sql(f"""SELECT count(*), sum(value), min("at") FROM '{tmp_path}/s.parquet'""").fetchall()[0]
    rows = list(csv.DictReader(io.StringIO(said("csv", run).output)))
    lines = [line for line in said("influx", run).output.splitlines() if line.startswith("dutlab_sample,")]
    assert there[0] == parquet[0] == len(rows) == len(lines) > 0
    assert tuple(rows[0]) == SAMPLE_COLUMNS
    assert parquet[1] == pytest.approx(there[1]) and sum(float(r["value"]) for r in rows) == pytest.approx(there[1])
    assert sum(float(line.split(" value=")[1].split()[0]) for line in lines) == pytest.approx(there[1])
    first = min(datetime.fromisoformat(r["at"]) for r in rows)
    assert first.replace(tzinfo=None) == parquet[2]
    assert min(int(line.rsplit(" ", 1)[1]) for line in lines) == round(first.timestamp() * 1e6) * 1000


def test_figures_are_in_the_line_protocol_and_hostile_tags_stay_tags(tmp_path: Path) -> None:
    made = build(tmp_path, Wanted(repeats=1, seconds=1, sizes=(64,), cores=0, bad_luck=False, modes={"router": "a b,c=d\n\\"}))
    lines = said("influx", made).output.splitlines()
    assert all(line.startswith(("dutlab_figure,run=", "dutlab_sample,run=")) for line in lines)
    assert any(r",mode=a\ b\,c\=d,workload=" in line for line in lines)
    figures = sum(len(of_link) for r in RunFolder.open(made).records() for of_link in r.figures.values())
    assert sum(line.startswith("dutlab_figure") for line in lines) == figures


def test_trials_as_iperf3_prints_them_come_back_through_our_own_import(run: Path, tmp_path: Path) -> None:
    said("iperf3", run, "-o", tmp_path / "out")
    goodput = {
        f"trial-{r.trial:04d}-{link}": of_link["goodput_bps"]
        for r in RunFolder.open(run).records()
        for link, of_link in r.figures.items()
        if "goodput_bps" in of_link and "+" not in link
    }
    files = [tmp_path / "out" / f"{name}.json" for name in goodput]
    trials, faults = read_files("iperf3", files, ImportOptions())
    assert not faults and goodput
    found = {t.cell.mode: next(iter(t.measured.figures.values()))["goodput_bps"] for t in trials}
    assert found == pytest.approx(goodput)
    assert {p.stem for p in (tmp_path / "out").iterdir()} > set(goodput)  # frames of the sweep too


def test_ramps_as_trex_loadtest_writes_them_come_back_through_our_own_import(tmp_path: Path) -> None:
    ramp = ramp_file(*((n * 1e5, min(n * 1e5, 6e5)) for n in range(1, 11)))
    trials = imported("box.json", to_bytes(ramp), ImportOptions())
    made = write_imported(tmp_path / "runs", "ramp", trials, command=("dutlab", "import"), now=NOW).path
    said("loadtest", made, "-o", tmp_path / "out")
    (file,) = (tmp_path / "out").iterdir()
    back = from_bytes(file.read_bytes(), file.name)
    assert [[p.rx_pps for p in s.ports] for s in back.samples] == [[p.rx_pps for p in s.ports] for s in ramp.samples]


def test_what_a_run_has_not_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this format"):
        said("loadtest", run, "-o", tmp_path / "out")
    assert said("iperf3", run).exit_code == 2 and said("csv", run, "--follow").exit_code == 2

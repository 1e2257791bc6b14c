"""What `ipgen -X` prints, in the words of its source, and the table by size and streams that imports and experiments make of it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cells import cell_of
from dutlab.choices import IMPORTS
from dutlab.errors import InputError, SpecRefused, ToolFailed, ToolMissing
from dutlab.hosts.local import LocalHost
from dutlab.interop.imported_run import Imported, ImportOptions, write_imported
from dutlab.interop.importers import read_files
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.spec.generators.ipgen import FrameWork, IpgenModel
from dutlab.spec.links import Port
from dutlab.spec.loader import experiment_of
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators.ipgen_benchmark import BenchmarkRun, check, generation, parse_benchmark, run_benchmark
from outputs import output
from refusal import refusals

STAND_IN = Path(__file__).parents[1] / "stand_ins" / "ipgen.py"
NOW = datetime(2026, 11, 25, tzinfo=UTC)

ALONE = output("ipgen", "benchmark")
TWO_AT_ONCE = output("ipgen", "benchmark-two-at-once")


def imported(name: str, text: str) -> list[Imported]:
    return IMPORTS["ipgen"].importer(name, text.encode(), ImportOptions())


def test_each_process_has_its_frames_a_second_over_its_whole_time_and_sizes_with_fcs():
    ((process,),), faults = parse_benchmark(ALONE)
    assert (process.frame_bytes, process.work, process.made, process.pps) == (64, FrameWork.FRAMES, [9, 7], 8.0)
    assert faults == []
    (batch,), faults = parse_benchmark(TWO_AT_ONCE)  # they mix their lines, and totals tell whose a line is
    assert [(p.frame_bytes, p.work, p.made) for p in batch] == [(1518, FrameWork.CHECKSUMS, [5, 3]), (1518, FrameWork.CHECKSUMS, [4, 2])]
    assert faults == []
    batches, _ = parse_benchmark(ALONE + ALONE + TWO_AT_ONCE)  # one after the other
    assert [len(batch) for batch in batches] == [1, 1, 2]
    other = TWO_AT_ONCE.replace("pktsize=1500", "pktsize=46", 1).replace("5 pps, pktsize 1500", "5 pps, pktsize 46")
    batches, _ = parse_benchmark(other)
    assert [[(p.frame_bytes, p.made) for p in batch] for batch in batches] == [[(64, [5])], [(1518, [4, 2])]]
    _, faults = parse_benchmark(ALONE.replace("totally 16", "totally 17") + "Packet generation benchmark. pktsize=46 start\n9 pkt gener")
    assert [fault.split()[1] for fault in faults] == ["5", "6"], "lines that belong to nothing are named"


def test_a_recorded_benchmark_is_read():
    ((process,),), faults = parse_benchmark(output("ipgen", "benchmark-1.31"))  # ipgen -v -XXX -s 1500 -t 2, on 2026-11-28
    assert (process.frame_bytes, process.work, process.made, faults) == (1518, FrameWork.CHECKSUMS, [2380589], [])


@pytest.mark.parametrize("late", ["0", "1"])
def test_a_benchmark_has_its_seconds_although_ipgen_ends_before_it_prints_the_last_one(monkeypatch: pytest.MonkeyPatch, late: str):
    monkeypatch.setenv("IPGEN_LATE", late)
    monkeypatch.setenv("DUTLAB_PASS_VARIABLES", "IPGEN_LATE")
    run = BenchmarkRun(str(STAND_IN), FrameWork.FRAMES, 64, 1)
    (process,), raw = asyncio.run(run_benchmark(LocalHost("here"), run, [None]))
    assert process.made == [1_000_000]
    assert raw["ipgen-1.txt"].count(b" second. ") == 2 - int(late)


def test_an_import_has_a_trial_a_run_and_the_rates_of_processes_at_once_are_added_up():
    alone, two = imported("e302.txt", ALONE + TWO_AT_ONCE)
    assert (alone.cell.workload, alone.cell.mode, alone.measured.figures) == ("generation", "e302", {"a": {"made_pps": 8.0}})
    assert dict(two.cell.params) == {"frame_size": 1518, "work": "checksums", "streams": 2, "duration_s": 2}
    assert two.measured.figures == {"a": {"made_pps": 7.0}}
    assert [row["made_pps"] for row in two.measured.tables["processes"]] == [4.0, 3.0]
    (trial,) = imported("e302.txt", "".join(line for line in TWO_AT_ONCE.splitlines(keepends=True) if not line.startswith("2 ")))
    assert "1 s" in trial.measured.doubts[0].detail and "2 s" in trial.measured.doubts[0].detail
    with pytest.raises(InputError, match=r"x\.txt: .*ipgen"):
        imported("x.txt", "Packet generation benchmark. pktsize=46 start\n")


def table_of(run):
    (section,) = (s for s in gather(run.path, run.path).sections if s.workload)
    (table,) = section.tables
    return table


def shown(table):
    return [
        (row.label, *(f"{c.median:g}" if isinstance(c, Figure) else c if isinstance(c, str) else "none" for c in row.cells))
        for row in table.rows
    ]


def test_an_import_of_several_runs_is_a_table_by_size_and_streams(tmp_path):
    kept = tmp_path / "e302.txt"
    with kept.open("wb") as file:
        for size, streams in ((46, 1), (46, 2), (1500, 1)):
            argv = [str(STAND_IN), "-XXX", "-s", str(size), "-t", "2"]
            outputs = [subprocess.run(argv, capture_output=True, check=True).stdout.splitlines(keepends=True) for _ in range(streams)]
            file.writelines(line for lines in zip(*outputs, strict=True) for line in lines)
    trials, faults = read_files("ipgen", [kept], ImportOptions())
    table = table_of(write_imported(tmp_path, "made", trials, command=["dutlab", "import"], now=NOW))
    assert faults == []
    assert [c.head for c in table.columns] == ["link", "work", "frames", "1 stream", "2 streams", "2 ÷ 1"]
    assert shown(table) == [
        ("e302", "a", "frames, copies and checksums", "64", "1e+06", "2e+06", "2.00"),
        ("e302", "a", "frames, copies and checksums", "1518", "30666", "none", ""),
    ]


# ---- in an experiment


def site(*cores: int) -> GeneratorSite:
    link = SimpleNamespace(source=Port(host="source", interface="lo"))
    return GeneratorSite({"source": LocalHost("source")}, SimpleNamespace(links={"a": link}), {"source": cores}, None)


def cell(**given):
    return cell_of(
        "generation", generator=IpgenModel(program=str(STAND_IN)), **{"frame_size": 64, "work": "copies", "duration_s": 2, **given}
    )


def test_a_trial_runs_a_process_a_stream_pinned_to_cores_of_the_testbed():
    core = min(os.sched_getaffinity(0))
    measured = asyncio.run(generation(site(core), cell()))
    assert measured.figures == {"a": {"made_pps": 1_000_000.0}}
    assert re.findall(r"\d+", measured.facts["processes"]) == ["1", str(core)]
    assert b"pktsize=46 with MEMCPY start\n" in measured.raw["ipgen-1.txt"]
    free = asyncio.run(generation(site(), cell(streams=3)))
    assert free.figures == {"a": {"made_pps": 3_000_000.0}}
    assert re.findall(r"\d+", free.facts["processes"]) == ["3"]
    assert [row["made_pps"] for row in free.tables["processes"]] == [1e6, 1e6, 1e6]


def test_before_the_first_trial_its_version_and_cores_are_looked_at():
    assert asyncio.run(check(site(), [cell(streams=3)])) == "1.30"
    with pytest.raises(ToolFailed, match=r"3 streams .* source gives 1 \(0\)"):
        asyncio.run(check(site(0), [cell(streams=3)]))
    missing = cell_of("generation", generator=IpgenModel(program="/nonexistent/ipgen"), work="frames")
    with pytest.raises(ToolMissing) as caught:
        asyncio.run(check(site(), [missing]))
    assert (caught.value.tool, caught.value.host, bool(caught.value.remedy)) == ("ipgen", "source", True)


def test_a_benchmark_without_a_figure_is_one_sentence(tmp_path):
    program = tmp_path / "ipgen"
    program.write_text("#!/bin/sh\necho no memory >&2; exit 3\n")
    program.chmod(0o755)
    with pytest.raises(ToolFailed, match=r"ended with 3\b.*no memory"):
        asyncio.run(generation(site(), cell_of("generation", generator=IpgenModel(program=str(program)), work="frames")))


def test_what_cannot_be_made_is_refused_with_its_place(tmp_path, golden):
    bodies = (
        "{generator: trafgen}", "{frame_sizes: [1519]}", "{frame_sizes: [imix]}", "{streams: [2, 2]}", "{work: []}", "{links: [[a, b]]}",
        "{duration: 1500ms}",
    )  # fmt: skip
    text = "experiment: x\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nworkloads: [{{generation: {}}}]\n"
    calls = [partial(experiment_of, text.format(body).encode(), tmp_path / "e.yaml") for body in bodies]
    golden.check("refusals-generation.txt", refusals(SpecRefused, calls, tmp_path))

"""The answer of a run: how fast, how sure, what limited it, what next; and its lines on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.analysis.answers import AnswerKind
from dutlab.analysis.verdict import Reason
from dutlab.cli.import_files import import_files
from dutlab.doubts import Doubt, DoubtKind
from dutlab.interop.imported_run import Imported, imported_cell, write_imported
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.report.gather import gather, read_run
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group, group, labels_of
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Answer, Headline, LimitRow, NextStep, RunReport, Section
from dutlab.report.model.table import Figure, Missing
from dutlab.report.model.words import unit_of
from dutlab.report.pages.terminal import MOST_LINES, terminal_answer
from dutlab.report.sections.answer import answer_of, with_repeats
from dutlab.report.sections.answer_tables import figure_words
from dutlab.report.sections.headline import caveats, compared, first_of
from dutlab.report.sections.loadtest import section as loadtest_section
from dutlab.report.sections.search import section as search_section
from dutlab.report.sections.storage_limit import section as storage_limit_section
from dutlab.spec.workloads.storage_limit import StorageLimitSetting
from dutlab.store.record import DoubtRecord, TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.workloads import main_figures
from golden import Golden
from run_records import new_run, trial_record

PUBLISHED = Path(__file__).parents[2] / "examples" / "published"


SMALL = {"seconds": 2, "cores": 0, "sizes": (64, 1518)}
Of = Callable[..., RunReport]


@pytest.fixture(scope="module")
def of(built: Callable[..., Path]) -> Of:
    """The report of a small run, gathered once for all that want the same."""
    made = dict[Path, RunReport]()

    def report(**wanted: object) -> RunReport:
        run = built(**{**SMALL, **wanted})
        if run not in made:
            made[run] = gather(run, run)
        return made[run]

    return report


def imported(tmp_path: Path, name: str) -> RunReport:
    done = CliRunner().invoke(import_files, ["figures", str(PUBLISHED / name), "--runs", str(tmp_path)])
    assert done.exit_code == 0, done.output
    return gather(next(tmp_path.iterdir()), tmp_path)


def lines(report: RunReport, width: int = 80, *, colour: bool = False) -> list[str]:
    return list(terminal_answer(report.answer, name=report.name, folder="runs/here", width=width, colour=colour))


def test_the_answer_has_its_tables_and_fits_80_columns(of: Of) -> None:
    report = of()
    assert max(len(line) for line in lines(report) if not line.startswith("  dutlab ")) <= 80
    (goodput, rates) = report.answer.tables
    assert [column.link for column in goodput.columns] == ["a", "b", "a+b"]
    assert [row.size for row in rates.rows] == ["64", "1518"] * 4
    assert [rates.columns[i].head for i in rates.shown] == ["frames", "forwarded", "limited by"]
    assert all(row.cells[-1] for row in rates.rows if not isinstance(row.cells[1], Missing))
    rates = of(sizes=(64, 512, 1518)).answer.tables[1]
    assert [column.size for column in rates.columns] == ["64", "512", "1518"] and len(rates.rows) == 4
    shaded = "\n".join(lines(of(sizes=(64, 512, 1518)), colour=True))
    assert "\x1b[48;5;" in shaded and "\x1b" not in "\n".join(lines(of(sizes=(64, 512, 1518))))


def test_an_answer_on_a_terminal_is_the_golden_page(of: Of, golden: Golden) -> None:
    several = [of(), of(repeats=1, cut_after=10), of(lab=True, repeats=1, bad_luck=False)]
    golden.check("answer.txt", "\n\n".join("\n".join(lines(report)) for report in several) + "\n")


@pytest.mark.parametrize(
    ("typed", "again"),
    [
        ("dutlab run a.yaml", "dutlab run a.yaml --set repeats=5"),
        ("dutlab search --size 64", "dutlab search --size 64 --repeats 5"),
        ("dutlab demo --quick", ""),
        ("dutlab search --repeats=1", ""),
        ("mytool run a.yaml", ""),
    ],
)
def test_a_command_that_takes_repeats_is_offered_with_five(typed: str, again: str) -> None:
    assert with_repeats(typed) == again


def test_the_name_of_a_mode_is_not_broken_over_two_lines(of: Of) -> None:
    report = of()
    sentence = "fast-path and filter-default and filter-empty and one-more-mode overlap with no-such-mode."
    answer = replace(report.answer, fast=(sentence,), tables=())
    for width in range(60, 70):
        said = list(terminal_answer(answer, name=report.name, folder="runs/here", width=width, colour=False))
        assert not any(line.endswith("-") for line in said) and sentence in " ".join(" ".join(said).split()), width


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("apu6-loadtest.csv", "from 96.93 kpps (linux, 64b) to "),
        ("era-workloads.csv", "random_write"),
        ("era-drive-spec.csv", "one drive, as rated: random read 4k"),
        ("tengig-after.csv", "Goodput, link a: from 9.17 Gb/s (mellanox to asus) to"),
        ("e302-9d-power.csv", "full-load"),
    ],
)
def test_every_kind_of_import_has_an_answer_and_a_table(tmp_path: Path, name: str, said: str) -> None:
    report = imported(tmp_path, name)
    assert said in " ".join(report.answer.fast)
    assert report.answer.tables and all(table.rows for table in report.answer.tables)
    assert not any(step.command.startswith("dutlab import") for step in report.answer.next)


def test_an_import_ends_with_its_answer_in_80_columns(tmp_path: Path) -> None:
    done = CliRunner().invoke(import_files, ["figures", str(PUBLISHED / "apu6-loadtest.csv"), "--runs", str(tmp_path)])
    said = done.stdout.splitlines()
    assert done.stderr.splitlines()[-1] == "writing the report", "large reports take a while: no silence"
    assert any(line.startswith("How fast") for line in said) and said[-1].startswith("report: ")
    assert max(len(line) for line in said if not line.startswith(("  dutlab ", "report: ", "8 imported"))) <= 80


def test_a_long_table_is_cut_and_says_so(of: Of) -> None:
    report = of(modes={"router": "\n".join(f"m{n}" for n in range(3 * MOST_LINES))}, repeats=1)
    narrow = lines(report, width=30)
    assert any(line.startswith("… ") and line.endswith(" more lines") for line in narrow)


def test_what_a_terminal_would_obey_is_not_printed(of: Of) -> None:
    hostile = Answer(("a\x1b[2Jb",), ("c\rd",), "e\x07f", (NextStep("g\x1bh", "dutlab \x1b]0;x"),), ())
    said = "\n".join(terminal_answer(hostile, name="run", folder="run"))
    assert not set(said) & {"\x1b", "\r", "\x07"}
    assert (shown := "\n".join(lines(of(hostile="\x1b[31m")))) and "\x1b" not in shown


def test_every_link_of_a_matrix_of_hosts_is_in_the_answer(tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    rows = [
        f"matrix,router,{link},{a},{b},{n}"
        for n, (link, a, b) in enumerate([("a", "x", "y"), ("a", "y", "x"), ("b", "x", "z"), ("b", "z", "x")], 1)
    ]
    table.write_text("workload,mode,link,client,server,goodput_gbps\n" + "\n".join(rows) + "\n")
    done = CliRunner().invoke(import_files, ["figures", str(table), "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    answer = gather(next((tmp_path / "runs").iterdir()), tmp_path).answer
    assert len(answer.tables) == 2 and all(t.shaded for t in answer.tables)
    assert "link a" in answer.tables[0].title + answer.tables[1].title and "link b" in answer.tables[0].title + answer.tables[1].title
    assert len(answer.fast) == 2


def test_goodput_to_the_dut_and_to_the_sink_are_different_rows_of_the_answer(tmp_path: Path) -> None:
    cells = [cell_of("iperf3", links=("a", "b"), server=server) for server in ("", "dut")]
    run = new_run(tmp_path, cells)
    for number, (cell, goodput_bps) in enumerate(zip(cells, (7.5e9, 16.8e9), strict=True), 1):
        run.write_trial(trial_record(number, cell, {"a+b": {"goodput_bps": goodput_bps}}), {})
    answer = gather(run.path, run.path).answer
    (table,) = answer.tables
    assert len(table.rows) == 2 and len({row.cells for row in table.rows}) == 2
    assert "16.80 Gb/s" in answer.fast[0] and "to dut" in answer.fast[0]


@pytest.mark.parametrize(
    ("name", "cells", "said"),
    [
        ("connections", [({}, {"concurrent_connections": 100000.0}), ({"sources": 4}, {"concurrent_connections": 90000.0})],
         "concurrent connections: from 90 000 (from 4 addresses) to 100 000 (router)."),
        ("connections", [({}, {"concurrent_connections": 100000.0})], "router: concurrent connections 100 000"),
        ("iperf3", [({"streams": 4}, {"goodput_bps": 4e8}), ({"streams": 4, "mss_bytes": 500}, {"goodput_bps": 3e8})], "300"),
        ("path-mtu", [({}, {"path_mtu_bytes": 1500.0, "payload_bytes": 1472.0})], "router: path MTU 1500 bytes"),
    ],
)  # fmt: skip
def test_a_sentence_of_a_single_mode_names_what_it_is_of_and_has_no_empty_brackets(tmp_path, name, cells, said) -> None:
    trials = [Imported(imported_cell("router", workload=name, tool=name, params=params), Measured({"a": of})) for params, of in cells]
    folder = write_imported(tmp_path, "r", trials, command=(), now=datetime(2026, 11, 25, tzinfo=UTC)).path
    report = gather(folder, folder)
    assert said in " ".join(report.answer.fast).replace("\u202f", " ")
    assert not any(empty in sentence for sentence in report.answer.fast for empty in ("()", "(,", ": :")), report.answer.fast
    assert not any(sentence.startswith(":") for sentence in report.answer.fast)


def test_the_answer_of_a_path_mtu_is_its_mtu_in_bytes() -> None:
    assert main_figures("path-mtu", ["payload_bytes", "path_mtu_bytes"]) == ["path_mtu_bytes"]
    assert (figure_words("path_mtu_bytes"), unit_of("path_mtu_bytes").name) == ("path MTU", "bytes")


DEPTHS = {"peak/iops": 2961.0, "peak/depth": 4.0, "knee/iops": 2890.0, "knee/depth": 1.0, "knee/clat_mean_ns": 332_000.0}


def swept(number: int, reads_percent: int, factor: float) -> Group:
    setting = StorageLimitSetting(
        writes=False, access="random", bs="4k", reads_percent=reads_percent, jobs=1, deepest=64, engine="libaio", ramp_s=0, duration_s=1
    )
    cell = Cell(mode="as-found", factors={"mode": "as-found"}, tool="fio", links=("server:d1",), setting=setting, repeat=1)
    figures = {"server:d1": {**DEPTHS, "peak/iops": DEPTHS["peak/iops"] * factor, "knee/iops": DEPTHS["knee/iops"] * factor}}
    now = datetime(2026, 11, 23, tzinfo=UTC)
    doubts = [DoubtRecord.of(Doubt(DoubtKind.DISTURBED, "by 9 %")), DoubtRecord.of(Doubt(DoubtKind.VIRTUAL_PORTS))]
    tables = {"depths": [{"depth": depth, "iops": 2900.0 * factor, "clat_mean_ns": 3e5 * depth} for depth in (1, 2, 4)]}
    record = TrialRecord(trial=number, status="measured", cell=cell, started=now, ended=now, figures=figures, doubts=doubts, tables=tables)
    return Group("as-found", cell, [number], [record])


def test_the_answer_of_rising_depth_tells_knee_and_peak_of_each_mix(of: Of, built: Callable[..., Path], golden: Golden) -> None:
    base, groups = of(), [swept(1, 100, 1.0), swept(2, 70, 2.0)]
    book = NoteBook(groups)
    folder = RunFolder.open(built(**SMALL))
    part = storage_limit_section(folder, groups, ["as-found"], book)
    report = replace(base, sections=(part,), headlines=(), limits=(), trials=(), notes=book.notes)
    answer = answer_of(report, groups, book)
    assert {curve.x_ticks for curve in part.curves} == {((1.0, "1"), (2.0, "2"), (4.0, "4"))}, "every depth that was measured"
    mixes = [said.replace("\u202f", " ") for said in answer.fast]
    assert len(mixes) == 2, "a sentence a mix"
    golden.check("answer-by-mix.txt", "\n".join((*mixes, *answer.sure)) + "\n")
    assert "virtual" not in " ".join(answer.sure)
    on_screen = lines(replace(report, answer=answer))
    assert not any("as-found" in line for line in on_screen[:12]), "a mode that is none takes no column of a terminal"
    assert all(len(line) <= 80 for line in on_screen if not line.startswith("  dutlab "))


def test_a_verdict_is_said_once_and_one_of_some_results_does_not_speak_for_all(of: Of, built: Callable[..., Path], golden: Golden) -> None:
    read, report = read_run(built(**SMALL)), of()
    measured = [g for g in read.groups if g.measured]

    def limited_by(*rows: LimitRow) -> Answer:
        return answer_of(replace(report, limits=rows), measured, read.book)

    answer = limited_by(*(replace(row, cause="line rate", confidence="shown") for row in report.limits))
    assert all("limited by" not in [t.columns[i].head for i in t.shown] for t in answer.tables)
    one = replace(report.limits[0], cause="line rate", confidence="shown")
    several = (answer, limited_by(one), limited_by(replace(one, confidence="")))
    golden.check("limited-by.txt", "".join(f"{of_rows.limited}\n" for of_rows in several))


def measured(mode: str, values: Sequence[float], *, first: int = 1, **more: object) -> list[TrialRecord]:
    """A sweep's trials of one mode, in turn with those of others."""
    now = datetime(2026, 11, 23, tzinfo=UTC)
    return [
        TrialRecord(
            trial=first + n, status="measured", cell=cell_of("sweep", mode=mode, frame_size=64, repeat=n + 1), started=now + timedelta(hours=n, minutes=first),
            ended=now, figures={"a": {"received_pps": value}}, **more,
        )
        for n, value in enumerate(values)
    ]  # fmt: skip


def headline_of(**modes: Sequence[float]) -> Headline:
    records = [r for n, (mode, values) in enumerate(modes.items()) for r in measured(mode, values, first=1 + 20 * n)]
    cells = {r.trial: r.cell for r in records}
    groups = group(cells, records, labels_of(cells.values(), {}))
    book = NoteBook(groups)
    found = compared("64 bytes", [(g.label, value_of(g, "a", "received_pps", book)) for g in groups], "received_pps", book)
    assert found is not None
    return found


FAST, LIKE, SLOW = ([base * (1 + step / 100) for step in (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)] for base in (1.06e6, 1.058e6, 0.604e6))


@pytest.mark.parametrize(
    ("modes", "kind", "fastest", "reason"),
    [
        ({"router": FAST, "nat": SLOW}, AnswerKind.FASTEST, "router", None),
        ({"router": FAST, "filter": LIKE, "nat": SLOW}, AnswerKind.SHARED, "", None),
        ({"router": FAST, "filter": LIKE}, AnswerKind.NOT_PROVEN, "", Reason.INTERVAL),
        ({"router": FAST[:1], "nat": SLOW[:1]}, AnswerKind.NOT_PROVEN, "", Reason.ONE_REPEAT),
        ({"router": FAST[:2], "nat": SLOW[:2]}, AnswerKind.NOT_PROVEN, "", Reason.TOO_FEW),
        ({"router": [1e6] * 6, "nat": [1e6] * 6}, AnswerKind.NOT_PROVEN, "", Reason.EQUAL),
    ],
)
def test_a_headline_names_a_winner_only_where_one_is_proven(modes, kind, fastest, reason) -> None:
    found = headline_of(**modes)
    assert (found.kind, found.fastest, found.reason) == (kind.value, fastest, reason.value if reason else "")
    assert bool(found.slowest) is (kind in {AnswerKind.FASTEST, AnswerKind.SHARED})
    inside = found.ratio_low is not None and found.ratio_high is not None and found.ratio_low <= 1 <= found.ratio_high
    assert not (found.fastest and inside)


def bounded(tool: str, *closed: bool) -> tuple[Section, NoteBook]:
    """A section of searches or ramps of `router` and `nat`, each with an upper bound or without."""
    now, records = datetime(2026, 11, 23, tzinfo=UTC), []
    for mode, end in zip(("router", "nat"), closed, strict=True):
        held = {"ndr/lower_pps": 171_500.0, "search_sent_s": 15.0} | ({"ndr/upper_pps": 172_000.0} if end else {})
        if tool == "loadtest":
            held = {"max_received_pps": 171_500.0, "max_received_bps_l1": 9.9e8, "max_line_ratio": 0.99} | (
                {"saturation_pps": 1e5} if end else {}
            )
        tables = {"goals": [{"name": "ndr", "irregular": "", "loss_ratio": 0, "sum_s": 1, "final_s": 1, "exceed_ratio": 0}], "trials": []}
        for repeat in range(1, 7):
            cell = cell_of(tool, mode=mode, frame_size=64, repeat=repeat, **({"preset": "rfc2544"} if tool == "search" else {}))
            values = {
                name: value * (1 + repeat / 1e4) * (1 if mode == "router" else 1.2) if name.endswith("pps") else value
                for name, value in held.items()
            }
            records.append(
                TrialRecord(trial=len(records) + 1, status="measured", cell=cell, started=now + timedelta(hours=repeat, minutes=mode == "nat"),
                            ended=now, figures={"a": values}, tables=tables)
            )  # fmt: skip
    cells = {r.trial: r.cell for r in records}
    groups = group(cells, records, labels_of(cells.values(), {"mode": ["router", "nat"]}))
    book = NoteBook(groups)
    made = {"search": search_section, "loadtest": loadtest_section}[tool]
    return made(None, groups, ["router", "nat"], book), book  # type: ignore[arg-type]  # no file is read


def test_a_bound_is_said_as_a_bound_and_loses_against_none(golden: Golden) -> None:
    found, _ = bounded("search", False, True)
    (headline,) = found.headlines
    assert (headline.kind, headline.reason) == (AnswerKind.NOT_PROVEN.value, Reason.BOUND.value), "router may do as much as nat"
    faster, _ = bounded("search", True, False)
    assert faster.headlines[0].fastest == "nat", "so much or more is more than router does"
    ramps, _ = bounded("loadtest", False, True)
    cells = {row.label: row.cells[2] for row in ramps.tables[0].rows}
    assert [cells[mode].at_least for mode in ("router", "nat")] == [True, False]
    said = [*found.answer, headline.sentence, *faster.answer, faster.headlines[0].sentence, *ramps.answer]
    golden.check("bounds.txt", "\n".join(said) + "\n")


def test_the_sentences_of_the_rule_are_the_golden_page(golden: Golden) -> None:
    every = [headline_of(router=FAST, nat=SLOW), headline_of(router=FAST, filter=LIKE, nat=SLOW), headline_of(router=FAST, filter=LIKE),
             headline_of(router=FAST[:1], nat=SLOW[:1]), headline_of(router=FAST[:2], nat=SLOW[:2]), headline_of(router=[1e6] * 6, nat=[1e6] * 6),
             headline_of(router=[2 * v for v in FAST], filter=FAST, drop=LIKE)]  # fmt: skip
    named = [
        ("router", Missing("refused: mode is not in force")),
        ("nat", replace(Figure(1.0, 1.0, 1.0, False, 2, 3, (1, 2)), disturbed=True)),
    ]
    said = [f"{h.about}: {h.sentence}" for h in every] + list(caveats(named))
    both = [("a", named[1][1]), ("b", named[1][1])]
    golden.check("headlines.txt", "\n".join((*said, *caveats(both), first_of(every)[0].sentence)) + "\n")


def test_many_comparisons_are_counted_and_not_told_one_by_one(tmp_path: Path) -> None:
    report = imported(tmp_path, "apu2-openbsd.csv")
    fast = report.answer.fast
    assert {h.kind for h in report.headlines} == {AnswerKind.NOT_PROVEN.value} and not any(h.fastest for h in report.headlines)
    effect, counted_, range_ = fast
    assert counted_.count(str(len(report.headlines))) == 2, "all comparisons, and those without a proven difference"
    assert "2.62 times" in effect and "931.1 Mb/s" in range_


def test_latency_over_the_load_is_told_without_load_and_at_the_full_one() -> None:
    assert "0 %" in figure_words("0%/tl_ns")
    assert figure_words("ndr/upper_pps") == "NDR at most"


@pytest.mark.parametrize(
    ("workload", "held", "judged"),
    [
        ("state", ["setup_lower_per_s", "setup_upper_per_s", "concurrent_flows"], ["setup_lower_per_s", "concurrent_flows"]),
        ("reconf", ["intended_pps", "into/outage_ns", "into/outage_max_ns", "into/command_ns"], ["into/outage_ns"]),
        ("reconf", ["intended_pps", "resolution_ns", "into/command_ns", "into/lossless_ratio"], ["into/command_ns"]),
    ],
)
def test_comparisons_and_answers_judge_a_workload_by_the_same_figures(workload: str, held: list[str], judged: list[str]) -> None:
    assert main_figures(workload, held) == judged


def test_the_one_comparison_of_several_workloads_says_what_it_is_of(of: Of, built: Callable[..., Path]) -> None:
    base = of()
    alone = replace(base, headlines=base.headlines[:1])
    groups = read_run(built(**SMALL)).groups
    first, *_ = answer_of(alone, groups, NoteBook(groups)).fast
    assert first == f"{base.headlines[0].about}: {base.headlines[0].sentence}"

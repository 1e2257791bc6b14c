"""What holds for every importer: figures that cannot be, the line's rate, stalls, what was left out, files of another tool."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from itertools import cycle, pairwise

import pytest
from click.testing import CliRunner
from mutated_imports import whole_files

from dutlab.choices import IMPORTS, ImportKind
from dutlab.cli.import_files import import_files
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop import importers
from dutlab.interop.figure_checks import checked, line_ceilings
from dutlab.interop.imported_run import AssumedUnit, Imported, ImportOptions, LeftOut, Omission, imported_cell, write_imported
from dutlab.interop.importers import WrongKind, read_data, read_files
from dutlab.methods.ports import Measured
from dutlab.physics.ceilings import tcp_goodput
from dutlab.report.gather import gather
from dutlab.report.questions.compared import compare_modes
from dutlab.report.questions.sides import open_run
from dutlab.report.write import write_report
from dutlab.units import BpsL1
from import_files import DATA, FIO

NOW = datetime(2026, 11, 21, tzinfo=UTC)
TEN_G, ONE_G = BpsL1(10e9), BpsL1(1e9)
ABOVE, BELOW, IMPOSSIBLE, STALLED = (
    DoubtKind.ABOVE_LINE_RATE, DoubtKind.NEGATIVE_LOSS, DoubtKind.IMPOSSIBLE_FIGURE, DoubtKind.STALLED,
)  # fmt: skip


def trial(figures, params=None, **more):
    cell = imported_cell("box", workload="iperf3", tool="x", params=params or {})
    return Imported(cell, Measured({more.pop("place", "a"): figures}, tables=more.pop("tables", {})), **more)


def kinds(found):
    return [d.kind for d in found.measured.doubts]


@pytest.mark.parametrize(
    ("figures", "kept", "doubts"),
    [
        ({"goodput_bps": 1e9, "loss_ratio": 0.5}, None, []),
        ({"goodput_bps": 1e9, "loss_ratio": 1.2}, {"goodput_bps": 1e9}, [IMPOSSIBLE]),
        ({"goodput_bps": 1e9, "up/loss_ratio": -0.01}, {"goodput_bps": 1e9, "up/loss_ratio": 0.0}, [BELOW]),
        ({"goodput_bps": -1.0, "retransmits": 3.0}, {"retransmits": 3.0}, [IMPOSSIBLE]),
        ({"goodput_bps": float("nan"), "retransmits": 3.0}, {"retransmits": 3.0}, [IMPOSSIBLE]),
        ({"goodput_bps": 1e31, "retransmits": 3.0}, {"retransmits": 3.0}, [IMPOSSIBLE]),
        ({"latency_min_ns": 9.0, "latency_mean_ns": 5.0, "latency_max_ns": 8.0, "transactions_per_s": 1.0}, {"transactions_per_s": 1.0}, [IMPOSSIBLE] * 3),
        ({"latency_min_ns": 9.0, "latency_mean_ns": 9.1, "latency_max_ns": 9.0}, None, []),
        ({"offered_pps": 1e6, "received_pps": 1.5e6}, None, [BELOW]),
        ({"offered_pps": 1e6, "received_pps": 1.01e6}, None, []),
        ({"clock_ahead_ns": -5.0, "lag_ms": -1.0}, None, []),
    ],
)  # fmt: skip
def test_a_figure_that_cannot_be_is_left_out_or_doubted(figures, kept, doubts):
    found = checked(trial(figures), None)
    assert found.measured.figures["a"] == (figures if kept is None else kept)
    assert kinds(found) == doubts
    assert sum(o.count for o in found.left_out if o.why is Omission.IMPOSSIBLE) == doubts.count(IMPOSSIBLE)


def test_a_trial_of_which_no_figure_can_be_has_no_result():
    assert checked(trial({"loss_ratio": 2.0}), None).why
    assert not checked(trial({}), None).why


@pytest.mark.parametrize(
    ("line", "figures", "params", "more", "doubts"),
    [
        (TEN_G, {"goodput_bps": 9.39e9}, {}, {}, []),
        (TEN_G, {"goodput_bps": 9.88e9}, {}, {}, []),  # with jumbo frames
        (ONE_G, {"goodput_bps": 1.8e9}, {}, {}, [ABOVE]),
        (ONE_G, {"goodput_bps": 1.8e9}, {}, {"place": "a+a.back"}, []),
        (ONE_G, {"goodput_bps": 1.2e9}, {}, {"place": "a.back"}, [ABOVE]),
        (ONE_G, {"goodput_bps": 0.9e9, "voice/goodput_bps": 1.2e9}, {}, {}, [ABOVE]),
        (ONE_G, {"goodput_bps": 956e6, "sent_bps": 2.86e9}, {"protocol": "udp"}, {"datagram_bytes": 1448.0}, []),  # sent on a faster line
        (TEN_G, {"offered_pps": 603e3}, {"frame_size": 16388}, {}, [ABOVE]),
        (TEN_G, {"offered_pps": 14.88e6}, {"frame_size": 64}, {}, []),
        (TEN_G, {"offered_bps_l1": 79.2e9}, {}, {}, [ABOVE]),
        (TEN_G, {"received_pps": 10e6, "received_bps_l2": 9.9e9}, {"frame_size": 64}, {}, [ABOVE]),
        (None, {"offered_bps_l1": 79.2e9, "goodput_bps": 1e15}, {}, {}, []),
    ],
)  # fmt: skip
def test_a_rate_above_the_line_is_doubted(line, figures, params, more, doubts):
    assert kinds(checked(trial(figures, params, **more), line)) == doubts


def test_the_line_is_the_ceiling_of_whatever_came_through():
    udp = trial({"goodput_bps": 956e6}, {"protocol": "udp"}, datagram_bytes=1448.0)
    assert checked(udp, ONE_G).ceilings["a"]["goodput_bps"] == pytest.approx(1e9 * 1448 / (1448 + 66))
    tcp = trial({"goodput_bps": 956e6}, {"mtu": 9000})
    assert checked(tcp, ONE_G).ceilings["a"] == {"goodput_bps": tcp_goodput(ONE_G, mtu=9000)}
    for at_most in (1472, 1473, 9000, 65507):  # of fragments too: never above the line, and more of longer ones
        cell, figures = imported_cell("x", workload="iperf3", tool="x", params={"protocol": "udp"}), {"a": {"goodput_bps": 1.0}}
        found = line_ceilings(cell, figures, ONE_G, trial({}, datagram_bytes=float(at_most)))["a"]["goodput_bps"]
        assert 0.9e9 < found < 0.98e9


@pytest.mark.parametrize(
    ("rows", "stalled"),
    [
        ([{"goodput_bps": 1e9}, {"goodput_bps": 0.0}, {"goodput_bps": 1e9}], 1),
        ([{"goodput_bps": 1e9}, {"goodput_bps": 0.0}, {"goodput_bps": None}], 1),
        ([{"received_pps": 0.0}, {"received_pps": 5.0}, {"received_pps": 0.0}], 0),  # begun before the first frame, ended after the last
        ([{"received_pps": 5.0}, {"received_pps": 0.0}, {"received_pps": 5.0}], 1),
        ([{"offered_pps": 0.0, "received_pps": 0.0}, {"offered_pps": 5.0, "received_pps": 5.0}], 0),
        ([{"direction": "a", "goodput_bps": 5.0}, {"direction": "b", "goodput_bps": 0.0}, {"direction": "b", "goodput_bps": 1.0}], 1),
        ([{"goodput_bps": 0.0}], 0),
    ],
)  # fmt: skip
def test_seconds_in_which_nothing_came_are_a_doubt(rows, stalled):
    assert kinds(checked(trial({"goodput_bps": 1.0}, tables={"seconds": rows}), None)) == [STALLED] * stalled


def test_what_was_left_out_and_assumed_is_printed_and_in_the_report_with_its_count(tmp_path, monkeypatch):
    left = (LeftOut("seconds", Omission.WARM_UP, 3), LeftOut("tests", Omission.UNFINISHED, 1, "line 7"))
    made = trial(
        {"goodput_bps": 1e9}, left_out=left, assumed=(AssumedUnit("bw", "KiB/s", "fio 2"),), tables={"seconds": [{"at_s": 1.0}] * 4}
    )
    monkeypatch.setattr(ImportKind, "importer", property(lambda _: lambda _name, _data, _options: [made]))
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("x")
    command = ["iperf3", str(tmp_path / "one.txt"), str(tmp_path / "two.txt"), "--runs", str(tmp_path / "runs"), "--json"]
    done = CliRunner().invoke(import_files, command)
    assert done.exit_code == 0, done.stderr
    (report,) = json.loads(done.stdout)["runs"]
    (table,) = next(s for s in report["sections"] if s["slug"] == "imported")["tables"]
    rows = [tuple(row["cells"][:3]) for row in table["rows"]]
    assert rows == [
        ("read", "trials", "2"), ("read", "figures", "2"), ("read", "rows of seconds", "8"),
        ("left out", "seconds", "6"), ("left out", "tests", "2"), ("assumed", "bw", "2"),
    ]  # fmt: skip
    assert "6 seconds" in done.stderr and "KiB/s" in done.stderr


def test_an_import_that_lost_datagrams_says_nothing_of_a_processor(tmp_path):
    lossy = trial({"goodput_bps": 1e8, "loss_ratio": 0.66}, {"protocol": "udp"})
    sizes = [
        Imported(
            imported_cell("box", workload="sweep", tool="x", params={"frame_size": size}),
            Measured({"a": {"received_pps": 1e6, "offered_pps": 2e6, "loss_ratio": 0.5}}),
        )
        for size in (64, 1518)
    ]
    for n, bed in enumerate(("one", "unknown")):
        path = write_imported(tmp_path / str(n), "x", [lossy, *(sizes if bed == "unknown" else [])], command=(), now=NOW, bed=bed).path
        assert {row.words for row in gather(path, path).limits} == {"limit unknown"}


def test_a_line_rate_is_refused_where_no_figure_is_of_a_link():
    (fio,) = [data for kind, data in whole_files() if kind == "fio"][:1]
    with pytest.raises(InputError, match="--line-rate"):
        read_data("fio", "x", fio, ImportOptions(ONE_G))


@pytest.mark.parametrize(("kind", "data"), whole_files())
def test_a_file_is_read_by_its_importer_alone_and_every_other_names_it(kind, data, monkeypatch):
    readers = []
    with monkeypatch.context() as alone:
        alone.setattr(importers, "_TRIED_BYTES", -1)
        for other in IMPORTS:
            with suppress(InputError):
                readers += [other] if read_data(other, "x.txt", data, ImportOptions()) else []
    assert readers in ([kind], [])  # none of a file that holds no result
    if readers:
        with pytest.raises(WrongKind) as refused:
            read_data(next(other for other in IMPORTS if other != kind), "x.txt", data, ImportOptions())
        assert refused.value.kinds == (kind,)


def test_a_large_file_is_not_tried_with_the_other_importers(monkeypatch):
    (kind, data), _ = next(pairwise(whole_files()))
    monkeypatch.setattr(importers, "_TRIED_BYTES", len(data) - 1)
    with pytest.raises(InputError) as refused:
        read_data("netperf", "x.txt", data, ImportOptions())
    assert kind != "netperf" and not isinstance(refused.value, WrongKind)


@pytest.mark.parametrize(("kind", "whole"), whole_files())
def test_a_number_that_no_float_holds_is_read_or_refused_by_name(kind, whole):
    whole = gzip.decompress(whole) if kind == "flent" else whole
    numbers = [found.span() for found in re.finditer(rb"\d+", whole)]
    for (first, end), digits in zip(numbers[:: max(1, len(numbers) // 45)], cycle((25, 400, 5000)), strict=False):
        with suppress(InputError):
            for trial in IMPORTS[kind].importer("odd", whole[:first] + b"9" * digits + whole[end:], ImportOptions()):
                assert trial.cell.model_dump_json()


BARE = {kind: data for kind, data in reversed(whole_files()) if kind in {"netperf", "iperf2", "wrk", "pkt-gen"}} | {
    "iperf3": (DATA / "cases" / "47-iperf3-verbose" / "v.txt").read_bytes(), "fio": (DATA / "cases" / "45-fio-3-text" / "disk.txt").read_bytes(),
}  # fmt: skip


@pytest.mark.parametrize("before", [b"> ", b">> ", b"    ", b"\t\t"])
@pytest.mark.parametrize(("kind", "data"), BARE.items())
def test_a_text_in_a_letter_or_a_page_is_read_as_it_was_printed(kind, data, before):
    lines = [before + line if line.strip() else line for line in data.splitlines(keepends=True)]
    (quoted, *_), (plain, *_) = (read_data(kind, "x.txt", of, ImportOptions()) for of in (b"Of this:\n\n" + b"".join(lines), data))
    assert quoted.measured.figures == plain.measured.figures


def test_what_no_importer_foresaw_is_a_fault_of_its_file_and_the_others_are_read(tmp_path, monkeypatch):
    right = IMPORTS["fio"].importer

    def broken(name, data, options):
        if data == b"odd":
            raise ZeroDivisionError("of the importer")
        return right(name, data, options)

    monkeypatch.setattr(ImportKind, "importer", property(lambda _: broken))
    (tmp_path / "odd").write_bytes(b"odd")
    (tmp_path / "good").write_bytes(FIO.read_bytes())
    trials, faults = read_files("fio", [tmp_path / "odd", tmp_path / "good"], ImportOptions())
    assert [bool(trial.why) for trial in trials] == [True, False]
    (fault,) = faults
    assert "odd" in fault and "ZeroDivisionError" in fault


def test_a_file_of_any_name_is_imported_and_kept(tmp_path):
    names = (
        "my drive.json",
        "+x.json",
        "..json",
        "caf\udce9.json",
        "\u202egnp.json",
        "a\nb.json",
        "-.json",
        "x" * 200 + ".json",
        "other.json",
    )
    (tmp_path / "in").mkdir()
    for name in names:
        (tmp_path / "in" / name).write_bytes(FIO.read_bytes())
    trials, faults = read_files("fio", sorted((tmp_path / "in").iterdir()), ImportOptions())
    run = write_imported(tmp_path / "runs", "x", trials, command=(), now=NOW)
    assert not faults and len(trials) == len(names)
    assert all((run.path / "trials" / f"{r.trial:04d}" / raw).read_bytes() == FIO.read_bytes() for r in run.records() for raw in r.raw)


@pytest.mark.parametrize(
    ("kind", "data"), {kind: data for kind, data in reversed(whole_files()) if kind not in {"figures", "ministat"}}.items()
)
def test_each_kind_makes_a_report_and_two_devices_can_be_compared(tmp_path, kind, data):
    trials = [t for name in ("one.json", "two.json") for _ in range(2) for t in read_data(kind, name, data, ImportOptions())]
    run = write_imported(tmp_path, kind, trials, command=(), now=NOW, bed=IMPORTS[kind].bed)
    written = write_report([run.path], formats=("html", "md", "csv", "json"), out=None)
    (report,) = json.loads(next(p for p in written if p.suffix == ".json").read_text())["runs"]
    assert report["labels"] == ["one", "two"] and not report["faults"]
    assert {row["words"] for row in report["limits"]} <= {"limit unknown"}
    if not report["headlines"]:  # of a sender alone: nothing that cells are compared by
        return
    (pair,) = compare_modes(open_run(run.path))
    assert all(c.pair.first == c.pair.second for c in pair.comparisons)

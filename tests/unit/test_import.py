"""Files of other tools as runs of ours: each kept whole, whatever can be read of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.choices import IMPORTS
from dutlab.cli.import_files import import_files
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.report.gather import gather
from dutlab.report.write import write_report
from dutlab.store.run_folder import RunFolder
from dutlab.tools.steps.figures import step_figures
from ipgen_files import line as ipgen_line

IPERF3 = Path(__file__).parents[1] / "data" / "iperf3"
NOW = datetime(2026, 11, 21, tzinfo=UTC)
SENT = (
    "870.571509 main_thread [1418] 1400000 pps (1400000 pkts in 1000000 usec)\n"
    "Sent 14000000 packets 840000000 bytes 27350 events 60 bytes each in 10.00 seconds.\n"
)


def read(kind, name, data):
    return IMPORTS[kind].importer(name, data, ImportOptions())


def test_an_iperf3_file_keeps_its_figures_its_time_and_itself():
    data = (IPERF3 / "ok.json").read_bytes()
    (trial,) = read("iperf3", "runs/asus-intel.json", data)
    said = json.loads(data)
    assert trial.cell.mode == "asus-intel"
    assert trial.measured.figures["a"]["goodput_bps"] == said["end"]["sum_received"]["bits_per_second"]
    assert trial.cell.params["streams"] == said["start"]["test_start"]["num_streams"]
    assert trial.started.timestamp() == said["start"]["timestamp"]["timesecs"]


@pytest.mark.parametrize("name", ["nan.json", "trailing-text.json", "truncated.json", "error-refused.json"])
def test_a_mended_file_is_marked_and_one_without_a_result_refused_by_its_name(name):
    data = (IPERF3 / name).read_bytes()
    if name in {"nan.json", "trailing-text.json"}:
        assert [d.kind.name for d in read("iperf3", name, data)[0].measured.doubts] == ["TOOL_INCOMPLETE"]
    else:
        with pytest.raises(InputError, match=name):
            read("iperf3", name, data)


def test_a_stream_of_events_is_read_as_the_object_would_be():
    said = json.loads((IPERF3 / "ok.json").read_bytes())
    events = [("start", said["start"]), *(("interval", i) for i in said["intervals"]), ("end", said["end"])]
    stream = "".join(json.dumps({"event": e, "data": d}) + "\n" for e, d in events) + '{"event":"interv'
    (trial,) = read("iperf3", "s.json", stream.encode())
    (whole,) = read("iperf3", "s.json", (IPERF3 / "ok.json").read_bytes())
    assert trial.measured.figures == whole.measured.figures
    assert f"line {len(events) + 1} is not an event" in trial.measured.doubts[0].detail


def test_udp_has_loss_and_jitter_and_a_time_that_no_clock_has_shown_is_left_out():
    said = json.loads((IPERF3 / "ok.json").read_bytes())
    said["start"]["test_start"]["protocol"] = "UDP"
    said["start"]["timestamp"]["timesecs"] = 1e300
    said["end"]["sum"] = {"packets": 2000, "lost_packets": 10, "jitter_ms": 0.25}
    (trial,) = read("iperf3", "u.json", json.dumps(said).encode())
    figures = trial.measured.figures["a"]
    assert (figures["loss_ratio"], figures["jitter_ns"], trial.cell.params["protocol"], trial.started) == (0.005, 250_000, "udp", None)


def test_a_test_in_both_directions_has_the_rate_of_each():
    said = json.loads((IPERF3 / "ok.json").read_bytes())
    end, rate = said["end"], said["end"]["sum_received"]["bits_per_second"]
    end["sum_sent_bidir_reverse"] = end["sum_sent"] | {"retransmits": 900}
    end["sum_received_bidir_reverse"] = end["sum_received"] | {"bits_per_second": 4.09e9}
    (trial,) = read("iperf3", "fw.json", json.dumps(said).encode())
    rates = {place: of["goodput_bps"] for place, of in trial.measured.figures.items()}
    assert rates == {"a": rate, "a.back": 4.09e9, "a+a.back": rate + 4.09e9}
    assert len(trial.measured.notes) == 1
    found = step_figures(json.dumps(said).encode(), b"")
    assert (found["goodput_bps"], found["goodput_bps.back"], found["retransmits.back"]) == (rate, 4.09e9, 900)


def test_a_pkt_gen_log_has_its_rate_and_frames_with_fcs_and_says_that_it_was_cut():
    (trial,) = read("pkt-gen", "tx.log", SENT.encode())
    assert trial.cell.params["frame_size"] == 64
    assert trial.measured.figures["a"] == {"offered_pps": 1.4e6, "offered_bps_l1": 1.4e6 * 84 * 8}
    (cut,) = read("pkt-gen", "tx.log", SENT.splitlines()[0].encode())
    assert cut.measured.figures["a"]["offered_pps"] == 1.4e6
    assert "was cut" in cut.measured.doubts[0].detail


def test_an_ipgen_log_has_loss_by_sent_less_received():
    log = ipgen_line(tx=1000, rx=1000) + "\n" + ipgen_line(tx=3000, rx=2900).replace("123.5", "125.5") + "\nbroken\n"
    (trial,) = read("ipgen", "e302.log", log.encode())
    figures = trial.measured.figures["a"]
    assert (figures["offered_pps"], figures["received_pps"], figures["loss_ratio"]) == (1000.0, 950.0, 100 / 3000)
    assert trial.cell.params["frame_size"] == 64
    assert "line 3" in trial.measured.doubts[0].detail
    (more,) = read("ipgen", "x.log", ipgen_line(tx=100, rx=105).encode())
    assert more.measured.figures["a"]["loss_ratio"] == 0, "no negative loss"
    assert "5 frames more received than sent" in more.measured.doubts[0].detail
    text = '{"framesize":{"64":{"bps":"5","curpps":"744048","limitpps":"1488095"},"1518":{"bps":"5","curpps":"81274","limitpps":"81274"}}}'
    trials = read("ipgen", "answer.json", text.encode())
    assert [(t.cell.params["frame_size"], t.measured.figures["a"]["received_pps"]) for t in trials] == [(64, 744048), (1518, 81274)]


@pytest.mark.parametrize("kind", sorted(IMPORTS))
def test_what_is_none_of_a_kind_is_refused_by_name(kind):
    for data in (b"", b"\xff\xfe\x00", b"{}", b"[1, 2", b"a\nb\n"):
        with pytest.raises(InputError, match=r"odd\.txt"):
            read(kind, "odd.txt", data)


def test_imported_files_make_a_report(tmp_path):
    trials = read("iperf3", "before.json", (IPERF3 / "ok.json").read_bytes()) + read("pkt-gen", "tx.log", SENT.encode())
    run = write_imported(tmp_path, "mixed", trials, command=["dutlab", "import"], now=NOW)
    assert run.verify_manifest().none
    written = write_report([run.path], formats=("html", "json"), out=None)
    (report,) = json.loads(next(p for p in written if p.suffix == ".json").read_text())["runs"]
    assert report["labels"] == ["before", "tx"]
    assert all(any(n["kind"] == "IMPORTED" for n in report["notes"]) for _ in trials)


def test_files_without_a_result_are_kept_as_failed_trials_beside_the_others(tmp_path):
    for folder, name in (("first", "ok.json"), ("first", "truncated.json"), ("second", "ok.json")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes((IPERF3 / name).read_bytes())
    runs = tmp_path / "runs"
    done = CliRunner().invoke(import_files, ["iperf3", str(tmp_path / "first"), str(tmp_path / "second"), "--runs", str(runs)])
    assert done.exit_code == 1, done.output
    assert "2 imported, 1 without a result" in done.output
    run = RunFolder.open(next(p for p in runs.iterdir() if p.is_dir()))
    whole, cut, again = (run.record(n) for n in (1, 2, 3))
    assert (whole.status, again.status, again.cell.repeat) == ("measured", "measured", 2)
    assert cut.status == "failed"
    assert "cut after" in cut.why
    assert (run.path / "trials/0002/raw/truncated.json").read_bytes() == (IPERF3 / "truncated.json").read_bytes()


def test_an_import_that_holds_no_result_at_all_leaves_no_run(tmp_path):
    runs = tmp_path / "runs"
    with pytest.raises(InputError, match="truncated"):
        CliRunner().invoke(
            import_files, ["iperf3", str(IPERF3 / "truncated.json"), "--runs", str(runs)], catch_exceptions=False, standalone_mode=False
        )
    assert not runs.exists()


def test_files_of_two_devices_say_nothing_of_what_limited_the_slower_one(tmp_path):
    said = json.loads((IPERF3 / "ok.json").read_bytes())
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "fast.json").write_text(json.dumps(said))
    said["end"]["sum_received"]["bits_per_second"] /= 3
    (tmp_path / "files" / "slow.json").write_text(json.dumps(said))
    done = CliRunner().invoke(import_files, ["iperf3", str(tmp_path / "files"), "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    run = next(p for p in (tmp_path / "runs").iterdir() if p.is_dir())
    assert [row.words for row in gather(run, run).limits] == ["limit unknown"] * 2

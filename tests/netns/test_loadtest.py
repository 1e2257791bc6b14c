"""A ramp of a few seconds as a user runs it: real namespaces, real frames, the file of trex-loadtest, and the way back."""

import json
from pathlib import Path

import pytest

from run_records import record_in

ROOT = Path(__file__).parents[2]


def record_of(folder):
    (path,) = folder.glob("runs/*-loadtest-????/trials/0001/record.json")
    return record_in(path)


def mean_of(asked, from_s, to_s):
    """By many small steps, what (end, rate at the beginning, rate at the end) of each stretch ask for on average."""
    steps, total = 10_000, 0.0
    for n in range(steps):
        at, begin = from_s + (n + 0.5) * (to_s - from_s) / steps, 0.0
        for end, low, high in asked:
            if at < end or end == asked[-1][0]:
                total += low + (high - low) * min((at - begin) / (end - begin), 1.0)
                break
            begin = end
    return total / steps


def test_a_short_ramp_both_ways_is_measured_written_and_read_back(dutlab, tmp_path):
    done = dutlab(
        "loadtest", "-p", "imix", "-wm", "500pps", "-wd", "2", "-rt", "0.5", "-rd", "4s", "-hd", "2", "--line-rate", "1G", "-o", "r.json"
    )
    assert done.returncode == 0, done.stderr
    record = record_of(tmp_path)
    assert record["status"] == "measured"
    assert set(record["figures"]) == {"a", "a.back", "a+a.back"}
    # 0.5 % of 1 Gbit/s of frames of 361.83 bytes, with 20 bytes around each (RFC 5180 appendix A), is 1637 frames a second each way
    target = 0.005 * 1e9 / (8 * (4342 / 12 + 20))
    for flow in record["flows"]:
        assert flow["balances"] and flow["intended_frames"] == pytest.approx(2 * 500 + 4 * target / 2 + 2 * target, abs=3)
        assert flow["sent_frames"] + flow["refused_frames"] == flow["intended_frames"]
    rows = record["tables"]["seconds"]
    assert {r["direction"] for r in rows} == {"a", "a.back"}
    there = [r for r in rows if r["direction"] == "a"]
    # Each row is asked for what the ramp holds in its own time: a machine with other work reads late, and a row is then longer than a second.
    begins, asked = 0.0, [(2.0, 500.0, 500.0), (6.0, 0.0, target), (8.0, target, target)]
    assert 4 <= len(there) <= 9
    for row in there:
        assert row["intended_pps"] == pytest.approx(mean_of(asked, begins, row["at_s"]), rel=0.02)
        begins = row["at_s"]
    samples = next(tmp_path.glob("runs/*-loadtest-????/trials/0001/samples.parquet"))
    assert samples.stat().st_size > 0

    data = json.loads((tmp_path / "r.json").read_text())
    assert (data["vars"]["warmup_mult"], data["vars"]["rampup_target"], data["vars"]["unidirectional"]) == ("500pps", 0.5, False)
    sent, of_file = [r["offered_pps"] for r in there], [s["0"]["tx_pps"] for s in data["stats"].values()]
    assert of_file == [pps for pps in sent if pytest.approx(pps) in of_file]
    assert len(of_file) >= len(sent) // 2, "a second that only one direction was read in is left out"
    again = dutlab("import", "loadtest", "r.json", "--line-rate", "1G")
    assert again.returncode == 0, again.stderr
    (imported,) = tmp_path.glob("runs/*-loadtest-r-*/trials/0001/record.json")
    back = record_in(imported)
    for way in ("a", "a.back", "a+a.back"):
        for figure in ("max_received_pps", "max_line_ratio"):
            measured, read = record["figures"][way][figure], back["figures"][way][figure]
            assert read == pytest.approx(measured) or (len(of_file) < len(sent) and 0 < read < measured), "the best second may be left out"
    assert (imported.parent / "raw" / "r.json").read_bytes() == (tmp_path / "r.json").read_bytes()
    page = next(tmp_path.glob("runs/*-loadtest-r-*/report/report.html")).read_text()
    assert "Load test: the ramp" in page and "imported" in page


def test_the_example_runs_with_its_times_cut_short(dutlab, tmp_path):
    short = {"warmup": "1s", "rampup": "3s", "hold": "1s", "frame_sizes": "[imix-trex]", "target": "1%"}
    sets = [word for key, value in short.items() for word in ("--set", f"workloads.0.loadtest.{key}={value}")]
    done = dutlab("run", str(ROOT / "examples" / "loadtest" / "experiment.yaml"), *sets)
    assert done.returncode == 0, done.stderr
    assert record_of(tmp_path)["figures"]["a+a.back"]["max_received_pps"] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-rd", "0"], "rampup: must be 2s"),
        (["-rt", "0"], "must be more than 0"),
        (["-rt", "2000"], "at most 1000%"),
        (["-wm", "fast"], "not a frame rate"),
        (["-p", "nonsense"], "nonsense"),
        (["--link", "z"], "z"),
    ],
)
def test_a_wrong_option_is_refused_before_a_lab_is_built(dutlab, tmp_path, options, words):
    done = dutlab("loadtest", *options)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()

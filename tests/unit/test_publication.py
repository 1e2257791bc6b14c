"""Published tables come back out of `import figures` and `report --style`, digit for digit; what has nothing to show is refused."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.analysis.limited.finding import LimitCause
from dutlab.cli.main import dutlab
from dutlab.errors import InputError
from dutlab.interop.figure_table import imported
from dutlab.interop.fio_run import imported as fio_trials
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.report.gather import gather
from dutlab.report.model.run_tables import limit_tables
from dutlab.report.model.table import Figure
from dutlab.report.model.words import rates_in
from dutlab.report.write import write_publication, write_report
from dutlab.store.cell_figures import name_words
from dutlab.units import BpsL1
from dutlab.workloads import settable
from import_files import FIO
from refusal import refusals
from run_records import new_run, trial_record

ROOT = Path(__file__).parents[2]
EXAMPLES, DATA = ROOT / "examples" / "published", ROOT / "tests" / "data"
TEN_GIG = ImportOptions(BpsL1(10e9))


def run_of(runs, name, options=TEN_GIG, day=21):
    trials = imported(name, (EXAMPLES / name).read_bytes(), options)
    return write_imported(runs, Path(name).stem, trials, command=("dutlab", "import"), now=datetime(2026, 11, day, tzinfo=UTC)).path


def rows(path):
    return list(csv.reader(io.StringIO(path.read_text())))


def published(name):
    return rows(DATA / name)


def written(runs, style, out, formats=("csv",)):
    return {p.name: p for p in write_publication(runs, style=style, formats=formats, out=out)}


@pytest.mark.parametrize("name", ["e302-9d-iperf3.csv", "e302-9d-ipsec.csv"])
def test_the_review_of_a_firewall_comes_out_as_it_was_printed(tmp_path, name):
    found = written([run_of(tmp_path, name)], "review", tmp_path)
    ours, theirs = rows(found["review-iperf3-goodput.csv"]), published(name)
    assert [ours[0][1:], *ours[1:]] == [theirs[0][1:], *theirs[1:]]  # its first column is the mode, whatever the table calls it


@pytest.mark.parametrize("form", ["csv", "html", "md"])
def test_no_cipher_loses_a_digit_in_any_form(tmp_path, form):
    page = written([run_of(tmp_path, "e302-9d-ipsec.csv")], "review", tmp_path, formats=(form,))
    text = page["review-iperf3-goodput.csv" if form == "csv" else f"review.{form}"].read_text()
    assert all(re.search(rf"(?<![\d.]){re.escape(cell)}(?![\d.])", text) for row in published("e302-9d-ipsec.csv")[1:] for cell in row[1:])


@pytest.mark.parametrize("name", ["e302-9d-ipsec.csv", "e302-9d-iperf3.csv", "apu6-loadtest.csv", "tengig-after.csv"])
def test_the_full_report_keeps_the_digits_too(tmp_path, name):
    run = run_of(tmp_path, name, ImportOptions())
    (path,) = write_report([run], formats=("html",), out=None)
    shown = re.findall(r'class="figure"[^>]*>([^<]*)</a>', path.read_text())
    head, *body = rows(EXAMPLES / name)
    figures = [n for n, column in enumerate(head) if column.endswith(("_gbps", "_mbps", "_kpps", "_percent", "retransmits"))]
    assert {row[n] for row in body for n in figures if row[n]} <= set(shown)


def cells(tmp_path, name):
    """Of `--style table`: (mode, each parameter…) → column → text."""
    (path,) = [p for p in written([run_of(tmp_path, name, ImportOptions())], "table", tmp_path / "out").values() if p.suffix == ".csv"]
    head, *body = rows(path)
    return [dict(zip(head, row, strict=True)) for row in body]


def test_the_factors_of_openbsd_and_watts_come_out_as_they_were_printed(tmp_path):
    ours = cells(tmp_path / "factors", "apu2-openbsd.csv")
    names = ("mtu", "setperf", "cpb", "pcie_power_mgmt", "mode", "goodput_mibytes_per_s")
    assert [[row[name] for name in names] for row in ours] == published("apu2-openbsd-factors.csv")[1:]
    watts = cells(tmp_path / "watts", "e302-9d-power.csv")
    assert [[row["mode"], row["watts"]] for row in watts] == published("e302-9d-power.csv")[1:]


_ENDS = {"IOPS": "iops", "ms": "ms", "TB": "tbytes", "GB/s": "gbytes_per_s", "MB/s": "mbytes_per_s", "percent": "percent"}


def test_the_array_of_32_drives_its_ratings_and_its_workloads_come_out_as_they_were_printed(tmp_path):
    ours = {row["mode"]: row for row in cells(tmp_path / "arrays", "era-raid-comparison.csv")}
    head, *body = published("era-raid-comparison.csv")
    for parameter, *values, unit in body:
        assert [ours[engine][f"{parameter}_{_ENDS[unit]}"] for engine in head[1:-1]] == values, parameter
    (rated,) = cells(tmp_path / "rated", "era-drive-spec.csv")
    for name, value, unit in published("era-drive-spec.csv")[1:]:
        assert rated[f"{name}_{_ENDS[unit]}" if unit else name] == value, name
    for row, printed in zip(cells(tmp_path / "workloads", "era-workloads.csv"), published("era-workloads.csv")[1:], strict=True):
        rw, block, drives, raid, value, unit, latency = printed
        assert [row[k] for k in ("rw", "block", "drives", "mode")] == [rw, block, drives, raid]
        assert (row[f"completed_{_ENDS[unit]}"], row["latency_ms"]) == (value, latency)


def test_the_style_of_storage_prints_parameters_of_engines_and_workloads_as_the_test_did(tmp_path):
    run = run_of(tmp_path, "era-raid-comparison.csv", ImportOptions())
    found = written([run], "storage", tmp_path / "a", ("csv", "md"))
    assert rows(found["storage-arrays.csv"]) == published("era-raid-comparison.csv") and "storage-workloads.csv" not in found
    apart = "random write: era_raid5_50 (2 500 000 IOPS) is 16.7 × linux_raid5 (150 000 IOPS), the furthest apart, each measured once"
    assert apart in found["storage.md"].read_text()
    run = run_of(tmp_path, "era-workloads.csv", ImportOptions())
    found = written([run], "storage", tmp_path / "w", ("csv", "md"))
    ours, printed = rows(found["storage-workloads.csv"]), published("era-workloads.csv")
    assert len(ours) == len(printed) == 1 + 10 and "storage-arrays.csv" not in found
    assert [row[:7] for row in ours[1:]] == printed[1:]
    assert {row[7] for row in ours[1:]} == {"ms", ""}
    assert "| latency, ms |" in found["storage.md"].read_text() and "latency unit" not in found["storage.md"].read_text()


def test_the_style_of_storage_sets_measured_arrays_beside_one_another(tmp_path):
    said = json.loads(FIO.read_bytes())
    trials = []
    for name, factor in (("raid10", 1), ("raid5", 0.5)):
        for depth in (16, 2):
            job = said["jobs"][0]
            job["read"]["iops"], job["job options"]["iodepth"] = 1e6 * factor * depth, str(depth)
            trials += fio_trials(f"{name}.json", json.dumps(said).encode(), ImportOptions())
    run = write_imported(tmp_path, "fio", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    head, *body = rows(written([run], "storage", tmp_path / "out")["storage-arrays.csv"])
    assert head == ["parameter", "raid10", "raid5", "unit"]
    iops = [row for row in body if row[0].endswith(": read") and row[-1] == "IOPS"]
    assert [row[0].split(":")[0] for row in iops] == ["depth 2", "depth 16"], "depths in the order of numbers"
    digits = [["".join(c for c in cell if c.isdigit()) for cell in row[1:3]] for row in iops]
    assert digits == [["2000000", "1000000"], ["16000000", "8000000"]]


def on_drives(runs):
    """One mode on two drives, each alone and both together."""
    said, trials = json.loads(FIO.read_bytes()), []
    for drives, iops in ((("d1", "d2"), 3e6), (("d2",), 2e6), (("d1",), 1e6)):
        said["jobs"][0]["read"]["iops"] = iops
        for trial in fio_trials("as-found.json", json.dumps(said).encode(), ImportOptions()):
            (figures,) = trial.measured.figures.values()
            measured = replace(trial.measured, figures={"+".join(drives): figures})
            trials.append(replace(trial, cell=trial.cell.model_copy(update={"links": drives}), measured=measured))
    return write_imported(runs, "drives", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path


def test_a_run_of_several_drives_names_them_in_every_row_and_calls_them_drives(tmp_path):
    run = on_drives(tmp_path)
    head, *body = rows(written([run], "storage", tmp_path / "out")["storage-workloads.csv"])
    at, value, unit = head.index("drives"), head.index("value"), head.index("unit")
    iops = [row for row in body if row[unit] == "IOPS" and row[value] != "0"]
    assert list(dict.fromkeys(row[at] for row in iops)) == ["d1", "d2", "d1+d2"]
    report = gather(run, run)
    (answer,) = report.answer.tables
    assert answer.columns[0].head == "drive" and answer.rows[0].cells[0] == "drive d1 alone"
    assert "link" not in " ".join(report.answer.fast)
    assert {t.what.rpartition(", ")[2] for t in report.trials} == {"drive d1", "drive d2", "drive d1+d2"}
    assert report.headlines and not any("d1+d2" in [of.label for of in h.figures] for h in report.headlines), (
        "a sum is no rival of one of them"
    )
    assert name_words("d1+d2", ["d1", "d2"], "fio") == "drive d1+d2" and name_words("a", ["a"], "sweep") == "link a"


def test_a_style_is_printed_on_the_terminal_and_writes_nothing(tmp_path):
    run = run_of(tmp_path, "e302-9d-iperf3.csv")
    before = sorted(run.rglob("*"))
    said = CliRunner().invoke(dutlab, ["report", str(run), "--style", "review", "--print"])
    assert said.exit_code == 0 and "both driven" in said.output and "9.40" in said.output, said.output
    assert sorted(run.rglob("*")) == before
    refused = CliRunner().invoke(dutlab, ["report", str(run), "--style", "review", "--print", "--format", "md"])
    assert refused.exit_code == 2 and "--print" in refused.output and "--format" in refused.output


def test_its_ciphers_stand_as_shares_of_the_baseline(tmp_path):
    found = written([run_of(tmp_path, "e302-9d-ipsec.csv")], "review", tmp_path)
    baseline, first = published("e302-9d-ipsec.csv")[1:3]
    shares = rows(found["review-iperf3-goodput-share.csv"])[1]
    assert shares[0] == first[0] == "3des-hmac-md5"
    assert shares[1:] == [f"{100 * float(a) / float(b):.1f}" for a, b in zip(first[1:], baseline[1:], strict=True)]


def test_the_ramps_of_the_apu6_come_out_as_they_were_printed(tmp_path):
    found = written([run_of(tmp_path, "apu6-loadtest.csv", ImportOptions())], "loadtest", tmp_path)
    ours = rows(found["loadtest-loadtest.csv"])
    assert ours[0] == ["product", "loadtest", "kpps", "mbps_l1", "percent_of_linerate_l1", "needed_ratio"]
    assert [row[:-1] for row in ours[1:]] == published("apu6-loadtest.csv")[1:], "products and loads in the order of the file"
    needed = {(product, load): float(share) for product, load, *_, share in ours[1:]}
    assert needed["danos", "64b"] == pytest.approx(200 / 154.62, abs=5e-4)


def ramps(runs, name, text):
    trials = imported(f"{name}.csv", text.encode(), ImportOptions())
    return write_imported(runs, name, trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path


RAMP = "mode,workload,tool,links,link,frame_size,cores,max_received_kpps,max_line_percent\n{}\n".format


def test_runs_of_one_mode_are_named_by_their_experiments_or_by_the_user(tmp_path):
    runs = [
        ramps(tmp_path, name, RAMP(f"router,loadtest,trex,a,a+a.back,64,4,{kpps},154")) for name, kpps in (("linux", 97), ("vpp", 1780))
    ]
    products = [row[0] for row in rows(written(runs, "loadtest", tmp_path / "a")["loadtest-loadtest.csv"])[1:]]
    assert products == ["linux", "vpp"]
    (table,) = write_publication(runs, style="loadtest", formats=("csv",), out=tmp_path / "b", names=("one", "two"))
    head, *body = rows(table)
    assert [row[0] for row in body] == ["one", "two"] and float(body[0][head.index("needed_cores")]) == pytest.approx(
        4 * 200 / 154, abs=0.05
    )
    for names in (("one",), ("same", "same")):
        with pytest.raises(InputError):
            write_publication(runs, style="loadtest", formats=("csv",), out=tmp_path / "c", names=names)


def test_rows_of_a_ramp_that_differ_in_a_setting_or_link_say_so(tmp_path):
    text = RAMP("as-found,loadtest,trex,a,a,imix,4,97,20\nas-found,loadtest,trex,b,b,imix,4,98,20\nas-found,loadtest,trex,a,a,imix,2,50,10")
    head, *body = rows(written([ramps(tmp_path, "x", text)], "loadtest", tmp_path / "out")["loadtest-loadtest.csv"])
    assert {"link", "settings"} <= {*head}
    assert len({tuple(row[: head.index("kpps")]) for row in body}) == len(body) == 3


def test_pairs_stand_before_and_after(tmp_path):
    before, after = (run_of(tmp_path, f"tengig-{when}.csv") for when in ("before", "after"))
    found = written([before, after], "matrix", tmp_path / "out")
    pairs = {(row[0], row[1]): row[2:] for row in rows(found["matrix-pairs.csv"])[1:]}
    printed = zip(published("tengig-matrix-before.csv")[1:], published("tengig-matrix-after.csv")[1:], strict=True)
    for (client, server, *then), (*same, new, new_retries) in printed:
        assert same == [client, server]
        assert pairs[client, server] == [*then, new, new_retries, f"{float(new) / float(then[0]):.2f} ×"]
        for when, value in (("before", then[0]), ("after", new)):
            heat = rows(found[f"matrix-map-{when}.csv"])
            by_server = dict(zip(heat[0], next(row for row in heat if row[0] == client), strict=True))
            assert by_server[f"{server}_gbps"] == value


def test_the_older_run_is_before_whatever_the_order_of_the_arguments(tmp_path):
    after, before = run_of(tmp_path, "tengig-after.csv", day=22), run_of(tmp_path, "tengig-before.csv", day=21)
    orders = ([after, before], [before, after])
    one, other = (written(runs, "matrix", tmp_path / "-".join(r.name for r in runs), formats=("csv", "md")) for runs in orders)
    assert one["matrix-pairs.csv"].read_text() == other["matrix-pairs.csv"].read_text()
    changes = {tuple(row[:2]): row[-1] for row in rows(one["matrix-pairs.csv"])[1:]}
    assert changes["asus", "intel"] == f"{9.84 / 1.12:.2f} ×"
    smallest_and_largest = [f"{9.72 / 4.38:.2f} × (intel to mellanox)", f"{9.84 / 1.12:.2f} × (asus to intel)"]
    answer = one["matrix.md"].read_text().split("## ")[0]
    assert all(change in answer for change in smallest_and_largest)


def test_sizes_that_another_tool_chose_are_no_departure_of_ours(tmp_path):
    found = written([run_of(tmp_path, "apu6-loadtest.csv", ImportOptions())], "loadtest", tmp_path / "out", formats=("md",))
    assert "RFC 2544 section 9.1" not in found["loadtest.md"].read_text()


def test_a_published_limit_names_the_settings_that_only_some_results_of_its_mode_have(tmp_path):
    run = run_of(tmp_path, "apu2-openbsd.csv", ImportOptions())
    limits = publication_of([run], "table")["limits"]
    assert limits and len(set(limits)) == len(limits) and all("setperf" in words and "cpb" in words for words in limits)
    of_links = publication_of([run_of(tmp_path, "e302-9d-iperf3.csv")], "review")["limits"]
    assert all(words.split(":")[0].count(", ") == 1 for words in of_links if "line rate" not in words), "alike at every link: named once"


def test_sentences_of_runs_with_the_same_modes_name_their_run(tmp_path):
    runs = [run_of(tmp_path / str(day), "e302-9d-iperf3.csv", day=day) for day in (21, 22)]
    document = publication_of(runs, "review")
    for part in ("answers", "limits", "certainty"):
        assert len(set(document[part])) == len(document[part]), part
        assert all(any(words.startswith(run.name) for run in runs) for words in document[part]), part


def publication_of(runs, style):
    return json.loads(written(runs, style, runs[0] / "report", ("json",))[f"{style}.json"].read_text())


def test_a_reader_is_told_how_fast_how_sure_and_why_not_faster(tmp_path):
    found = written([run_of(tmp_path, "e302-9d-iperf3.csv")], "review", tmp_path, formats=("html", "md", "json"))
    page = found["review.html"].read_text()
    assert page.index("how fast") < page.index("how sure") < page.index("why not faster") < page.index("<table")
    assert "router, iperf3: limited by" in page and "filter-default, iperf3: limited by" in page
    assert "measured once" in found["review.md"].read_text()
    assert "Imported, not measured" in page and "17.44" in page  # the sum over both links, which the table left to its readers


def test_runs_without_what_a_style_shows_are_refused_with_what_they_have(tmp_path):
    run = run_of(tmp_path, "e302-9d-iperf3.csv")
    for style in ("loadtest", "matrix"):
        with pytest.raises(InputError, match="this style") as caught:
            written([run], style, tmp_path)
        assert "iperf3" in str(caught.value.remedy)


def test_names_from_outside_are_escaped(tmp_path):
    data = b"mode,workload,link,client,server,goodput_gbps\n<script>x</script>,matrix,=cmd(),=1+1,|b|,1\n"
    run = write_imported(tmp_path, "x", imported("x.csv", data, ImportOptions()), command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    found = written([run], "matrix", tmp_path, formats=("html", "md", "csv"))
    assert "<script>" not in found["matrix.html"].read_text() + found["matrix.md"].read_text()
    assert rows(found["matrix-pairs.csv"])[1][0] == "'=1+1"
    assert r"\|b\|" in found["matrix.md"].read_text()


def test_a_table_that_is_none_is_refused_with_every_line(golden):
    texts = (
        "mode,workload,goodput_gbps\n", "mode,workload,speed\nrouter,iperf3,9\n", "mode,goodput_gbps\nrouter,9\n",
        "mode,mode,workload,goodput_gbps\na,b,iperf3,9\n", "mode,workload,goodput_gbps\nrouter,iperf3\n",
        "mode,workload,goodput_gbps\na,iperf3,nan\nb,iperf3,fast\n",
    )  # fmt: skip
    calls = [partial(imported, "x.csv", text.encode(), ImportOptions()) for text in texts]
    golden.check("refusals-figure-table.txt", refusals(InputError, calls))


def test_units_repeats_and_parameters_of_a_table():
    text = "mode,workload,link,frame_size,duration_s,received_mpps,latency_p99_us,loss_percent\nr,sweep,a,64,30,1.5,12,0.5\nr,sweep,a,64,30,1.6,,\n"
    first, second = imported("x.csv", text.encode(), TEN_GIG)
    assert first.measured.figures == {"a": {"received_pps": 1.5e6, "latency_p99_ns": 12_000, "loss_ratio": 0.005}}
    assert second.measured.figures == {"a": {"received_pps": 1.6e6}}
    assert first.cell.params == {"frame_size": 64, "duration_s": 30}
    assert round(first.ceilings["a"]["received_pps"]) == 14_880_952


def test_a_table_of_figures_is_shown_whatever_workload_it_names(tmp_path):
    text = "mode,workload,link,frame_size,received_kpps\n" + "".join(f"router,{name},a,64,1500\n" for name in settable())
    trials = imported("x.csv", text.encode(), TEN_GIG)
    run = write_imported(tmp_path, "x", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    of = {section.workload: section for section in gather(run, run).sections if section.workload}
    assert of.keys() == set(settable())
    cells = {name: [cell for table in section.tables for row in table.rows for cell in row.cells] for name, section in of.items()}
    silent = {name for name, found in cells.items() if not any(isinstance(cell, Figure) and cell.median == 1.5e6 for cell in found)}
    assert silent == {"generation", "loadtest", "matrix", "steps"}, "their sections have figures of other names"


def test_what_limited_the_apu6_is_what_its_reviewer_found(tmp_path):
    run = run_of(tmp_path, "apu6-loadtest.csv", ImportOptions(BpsL1(1e9)))
    limits = gather(run, run).limits
    assert {(row.label, row.size) for row in limits if row.cause == LimitCause.LINE.value} == {("vpp", "imix"), ("danos", "imix")}
    assert {row.cause for row in limits if row.size == "64b"} == {LimitCause.PER_PACKET.value}
    assert len(limits) == 8 and all(row.links == "a+a.back" for row in limits)


@pytest.mark.parametrize(("unit", "bits"), [("MB/s", 8e6), ("MiB/s", 8 * 2**20)])
def test_a_reader_chooses_megabytes_of_either_kind(tmp_path, unit, bits):
    run = run_of(tmp_path, "e302-9d-iperf3.csv")
    with rates_in(unit):
        page = written([run], "review", tmp_path / "out", ("md", "csv"))
        report = gather(run, run)
        assert unit in report.answer.tables[0].caption
    shown, printed = (rows(of)[1:] for of in (page["review-iperf3-goodput.csv"], DATA / "e302-9d-iperf3.csv"))
    for ours, theirs in zip(shown, printed, strict=True):
        assert [float(cell.replace("\u202f", "")) for cell in ours[1:]] == pytest.approx(
            [float(cell) * 1e9 / bits for cell in theirs[1:]], abs=0.06
        )
    assert unit in page["review.md"].read_text() and "Gb/s" in gather(run, run).answer.tables[0].caption


def test_published_mebibytes_keep_their_digits_in_the_chosen_unit(tmp_path):
    run = run_of(tmp_path, "apu2-openbsd.csv", ImportOptions())
    said = CliRunner().invoke(dutlab, ["report", str(run), "--style", "table", "--unit", "MiB/s", "--print"])
    assert said.exit_code == 0 and all(row[-1] in said.output for row in published("apu2-openbsd-factors.csv")[1:])


def test_the_figures_of_a_style_are_pictures_too(tmp_path):
    run = run_of(tmp_path, "apu6-loadtest.csv", ImportOptions())
    said = CliRunner().invoke(dutlab, ["plot", str(run), "--style", "loadtest", "-o", str(tmp_path / "plots"), "--json"])
    names = [Path(path).name for path in json.loads(said.output)["written"]]
    assert names == ["loadtest-imix.svg", "loadtest-64b.svg"] and all((tmp_path / "plots" / name).is_file() for name in names)


def test_a_ramps_publication_names_the_least_and_the_most_of_each_load(tmp_path):
    answers = publication_of([run_of(tmp_path, "apu6-loadtest.csv", ImportOptions())], "loadtest")["answers"]
    assert len(answers) == 2 and "openbsd" in answers[0] and "danos" in answers[0] and "linux" in answers[1]


def test_each_verdict_names_the_levels_that_tell_its_result_from_the_others(tmp_path):
    run = run_of(tmp_path, "apu2-openbsd.csv", ImportOptions(BpsL1(1e9)))
    report = gather(run, run)
    (table,) = limit_tables(report.limits, report.trials)
    abouts = [(row.label, row.cells[0]) for row in table.rows]
    assert len(set(abouts)) == len(abouts) == len(report.limits) > 1
    assert any("setperf 100" in str(about) for _, about in abouts)


def test_a_measured_factor_experiment_is_one_table_with_a_column_for_each_factor(tmp_path):
    levels = [("nat", "9000"), ("router", "1500"), ("nat", "1500"), ("router", "9000")]  # shuffled
    cells = [cell_of("iperf3", mode=mode, factors={"mtu": mtu}, streams=1, duration_s=3) for mode, mtu in levels]
    resolved = {"experiment": {"name": "x", "factors": {"mode": ["router", "nat"], "mtu": [1500, 9000]}}, "testbed": {"name": "sim"}}
    run = new_run(tmp_path, cells, resolved=resolved | {"command": ["dutlab", "run"]})
    for number, cell in enumerate(cells, 1):
        run.write_trial(trial_record(number, cell, {"a": {"goodput_bps": number * 1e9}}), {})
    head, *rest = rows(written([run.path], "table", tmp_path / "out")["table-iperf3.csv"])
    assert head[:2] == ["mode", "mtu"] and "streams" not in head
    assert [tuple(row[:2]) for row in rest] == [("router", "1500"), ("router", "9000"), ("nat", "1500"), ("nat", "9000")]

"""Public cases of iperf3, netperf and flent: each a file as people post it, with the figures worked out by hand (tests/data/cases, a README each)."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dutlab.analysis.limited import LimitCause
from dutlab.choices import IMPORTS
from dutlab.cli.import_files import import_files
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.hosts.host import Done
from dutlab.interop.imported_run import ImportOptions, Omission
from dutlab.interop.importers import read_files
from dutlab.report.gather import gather
from dutlab.report.model.contests import CompareRequest
from dutlab.report.questions.compared import compare_modes
from dutlab.report.questions.sides import open_run
from dutlab.subject import whole_of
from dutlab.tools.iperf3.datagrams import read_ends
from import_files import CASES, DATA
from outputs import output

INCOMPLETE, NEGATIVE = DoubtKind.TOOL_INCOMPLETE, DoubtKind.NEGATIVE_LOSS


def named(figures):
    """Those of the whole by their names, those of one way of a test in both by place and name."""
    whole = whole_of(figures)
    return {name if place == whole else f"{place} {name}": value for place, of in figures.items() for name, value in of.items()}


@pytest.mark.parametrize(
    ("command", "trials", "doubts"),
    [
        ("flent 01-flent-socket-stats/tcp_2up.flent.gz", [{"goodput_bps": 8e6, "rtt_mean_ns": 20e6}], []),
        ("flent 03-flent-udp-ping-raw/rrul.flent.gz", [{f"rtt_{what}_ns": 50e6 for what in ("min", "mean", "p50", "p99", "max")}], []),
        (
            "flent 05-flent-http/http.flent.gz",
            [{f"latency_{what}_ns": 1.05e6 for what in ("min", "mean", "p99")} | {"rtt_mean_ns": None}],
            [],
        ),
        (
            "iperf3 06-iperf3-udp-before-3.11/udp.json",
            [{"sent_bps": 1e9, "goodput_bps": 750e6, "loss_ratio": 0.25, "jitter_ns": 21e3, "protocol": "udp", "length_bytes": 1460}],
            [],
        ),
        (
            "iperf3 07-iperf3-bidir/fw.json",
            [
                {
                    "a goodput_bps": 9.39e9,
                    "a.back goodput_bps": 4.09e9,
                    "goodput_bps": 13.48e9,
                    "a.back retransmits": 900,
                    "direction": "bidir",
                }
            ],
            [],
        ),
        (
            "iperf3 10-iperf3-text-then-reverse/nas.txt",
            [{"goodput_bps": 9.39e9, "direction": "forward"}, {"goodput_bps": 3.02e9, "retransmits": 188, "direction": "reverse"}],
            [],
        ),
        (
            "iperf3 12-iperf3-negative-loss/udp.txt",
            [{"goodput_bps": 811e6, "loss_ratio": 0, "protocol": "udp", "direction": "reverse"}],
            [NEGATIVE],
        ),
        (
            "netperf 21-netperf-cpu/vxlan.txt",
            [{"goodput_bps": 3919.03e6, "message_bytes": 16384, "test": "TCP_STREAM"}, {"goodput_bps": 2205.32e6, "message_bytes": 8192}],
            [INCOMPLETE],
        ),
        ("iperf3 40-iperf3-tcp-server-text-3.1/server.txt", [{"goodput_bps": 3.31e9, "sent_bps": None}], []),
        (
            "iperf3 41-iperf3-10g-into-1g/odroid.json",
            [{"goodput_bps": 956e6, "sent_bps": 2.86e9, "loss_ratio": 822000 / 1234500, "streams": 40, "rate_bps": 250_000_000}],
            [],
        ),
        (
            "netperf 43-netperf-omni/rr.csv",
            [{"transactions_per_s": 3313.49, "latency_p50_ns": 295e3, "latency_p99_ns": 406e3, "test": "UDP_RR"}],
            [],
        ),
        ("netperf 43-netperf-omni/stream.kv", [{"goodput_bps": 4935.1e6, "retransmits": 12, "test": "TCP_STREAM", "duration_s": 10}], []),
        (
            "iperf3 47-iperf3-verbose/v.txt",
            [{"goodput_bps": 50.3e6, "sender_cpu_percent": 2.2, "rate_bps": 50e6, "length_bytes": 131072, "direction": "forward"}],
            [],
        ),
    ],
)
def test_a_public_case_has_its_right_figures(command, trials, doubts):
    """`trials` has of each what must be among its figures and what was asked; None: is not there."""
    kind, path = command.split(" ", 1)
    found, faults = read_files(kind, [CASES / path], ImportOptions())
    said = [{**trial.cell.params, **named(trial.measured.figures)} for trial in found]
    assert [{name: of.get(name) for name in trial} for of, trial in zip(said, trials, strict=True)] == [pytest.approx(t) for t in trials]
    assert [doubt.kind for trial in found for doubt in trial.measured.doubts] == doubts
    assert faults == []
    assert len({trial.cell.model_dump_json() for trial in found}) == len(found), "no two are repeats"


def test_the_case_of_datagrams_by_iperf3_3_9():
    """51: of its client's and server's report."""
    ends = [
        Done(end, ("iperf3",), 0, (CASES / f"51-datagrams-iperf3-3.9/{end}.json").read_bytes(), b"", 0.0, 1.0)
        for end in ("client", "server")
    ]
    found = read_ends(*ends, 1460, {})
    assert (found.sent, found.received) == (1711, 1668)


VERSIONS = ("3.1.3", "3.5", "3.7", "3.9", "3.10.1", "3.12", "3.16", "3.21")
RECORDED = DATA / "iperf3" / "versions"


def recorded(version, of):
    return json.loads((RECORDED / f"{version}-{of}.json").read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_datagrams_of_each_version_are_counted_and_both_ends_reports_are_one_test(version):
    """100 Mbit/s into a socket of 8 KiB, which loses some: datagrams are 1400 bytes."""
    paths = [RECORDED / f"{version}-udp-{end}.json" for end in ("client", "server")]
    client, server = (json.loads(path.read_text())["end"] for path in paths)
    sent, lost = client["sum"]["bytes"] // 1400, server["sum"]["lost_packets"]
    assert 0 < lost < sent
    found = read_ends(*(Done("x", ("iperf3",), 0, path.read_bytes(), b"", 0.0, 1.0) for path in paths), 1400, {})
    assert (found.sent, found.received) == (sent, pytest.approx(sent - lost, abs=3))
    (trial,), faults = read_files("iperf3", paths, ImportOptions())
    figures = trial.measured.figures["a"]
    assert figures["loss_ratio"] == pytest.approx(lost / sent, abs=0.002)
    assert figures["goodput_bps"] == pytest.approx(figures["sent_bps"] * (1 - lost / sent), rel=0.005)
    assert ([out.why for out in trial.left_out], sorted(trial.raw), faults) == (
        [Omission.SAME_TEST],
        sorted(path.name for path in paths),
        [],
    )
    (alone,), _ = read_files("iperf3", paths[1:], ImportOptions())
    assert alone.measured.figures["a"]["loss_ratio"] == pytest.approx(lost / sent, abs=0.002)


@pytest.mark.parametrize("version", VERSIONS[2:])
def test_both_directions_of_each_version_that_has_them(version):
    (trial,), _ = read_files("iperf3", [RECORDED / f"{version}-bidir-client.json"], ImportOptions())
    forward, back = (stream["receiver"]["bits_per_second"] for stream in recorded(version, "bidir-client")["end"]["streams"])
    figures = trial.measured.figures
    rates = [figures[place]["goodput_bps"] for place in ("a", "a.back", "a+a.back")]
    assert rates == pytest.approx([forward, back, forward + back], rel=1e-3)
    assert trial.cell.params["direction"] == "bidir"
    assert {row["direction"] for row in trial.measured.tables["seconds"]} == {"a", "a.back"}


def test_a_text_of_the_client_and_one_of_the_server_are_one_test(tmp_path):
    stream = "local {0} port {1} connected to {2} port {3}"
    ends = ("192.0.2.1", 45424, "192.0.2.2", 5101)
    server = (CASES / "40-iperf3-tcp-server-text-3.1/server.txt").read_text()
    assert stream.format(*ends[2:], *ends[:2]) in server
    client = server.replace("Accepted connection from", "Connecting to host").replace(
        stream.format(*ends[2:], *ends[:2]), stream.format(*ends)
    )
    for name, text in (("client", client), ("server", server), ("other", server.replace("45424", "45426"))):
        (tmp_path / f"{name}.txt").write_text(text)
    trials, _ = read_files("iperf3", [tmp_path / f"{name}.txt" for name in ("server", "client", "other")], ImportOptions())
    assert [(trial.cell.mode, sorted(trial.raw)) for trial in trials] == [
        ("client", ["client.txt", "server.txt"]),
        ("other", ["other.txt"]),
    ]


def events(document):
    parts = [("start", document["start"]), *(("interval", i) for i in document["intervals"]), ("end", document["end"])]
    return "".join(json.dumps({"event": event, "data": data}) + "\n" for event, data in parts)


@pytest.mark.parametrize(
    ("make", "count", "doubts", "left_out"),
    [
        (lambda a, b: a + "\n" + b, 2, [], []),
        (lambda a, b: f"[{a},\n{b}]", 2, [], []),
        (lambda a, b: json.dumps(json.loads(a)) + "\n" + json.dumps(json.loads(b)), 2, [], []),
        (lambda a, b: events(json.loads(a)) + events(json.loads(b)), 2, [], []),
        (lambda a, b: events(json.loads(a)) + a + b, 2, [], []),  # --json-stream-full-output, and another
        (lambda a, b: a[:900] + "\n" + b, 1, [INCOMPLETE], [Omission.UNFINISHED]),
        (lambda a, b: a + "\n" + b[:900], 1, [INCOMPLETE], [Omission.UNFINISHED]),
        (lambda a, b: f"{a}\niperf Done.\n{b}\n" + '{"start": {"version": "iperf 3.21"}, "error": "interrupt - the server has terminated"}', 2, [], []),
        (lambda a, b: output("step_figures", "iperf3") + "\nServer JSON output:\n" + a + "\niperf Done.\n", 1, [], []),
        (lambda a, b: a + "\nready\n" + b, 2, [INCOMPLETE], [Omission.UNREADABLE]),
        (lambda a, b: a.replace('"jitter_ms":\t', '"jitter_ms":\t-nan, "x":') + "\n" + b, 2, [INCOMPLETE], []),
        (lambda a, _: a + "\nConnecting to host 192.0.2.2, port 5201\niperf3: error - unable to connect\n", 1, [INCOMPLETE], [Omission.UNFINISHED]),
    ],
)  # fmt: skip
def test_every_document_of_a_file_is_a_test_and_what_is_none_is_said(make, count, doubts, left_out):
    one, other = (json.dumps(recorded(version, "udp-client"), indent="\t", separators=(",", ":\t")) for version in ("3.12", "3.16"))
    trials = IMPORTS["iperf3"].importer("x.json", make(one, other).encode(), ImportOptions())
    assert len(trials) == count
    assert [doubt.kind for trial in trials for doubt in trial.measured.doubts] == doubts
    assert [out.why for trial in trials for out in trial.left_out] == left_out


def test_a_report_that_was_cut_short_counts_where_it_is_of_the_end_that_received():
    document = recorded("3.12", "udp-server") | {"error": "the client has terminated"}
    (trial,) = IMPORTS["iperf3"].importer("x.json", json.dumps(document).encode(), ImportOptions())
    assert [doubt.kind for doubt in trial.measured.doubts] == [INCOMPLETE]
    document["error"] = "unable to receive results"
    with pytest.raises(InputError):
        IMPORTS["iperf3"].importer("x.json", json.dumps(document).encode(), ImportOptions())


def imported(tmp_path, *arguments):
    done = CliRunner().invoke(import_files, [*arguments, "--runs", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    return next(path for path in (tmp_path / "runs").iterdir() if path.is_dir())


@pytest.mark.parametrize(("line", "is_limit"), [((), False), (("--line-rate", "1G"), True)])
def test_the_line_is_a_limit_where_it_is_known_and_a_lossy_import_tells_nothing_of_a_dut(tmp_path, line, is_limit):
    run = imported(tmp_path, "iperf3", str(CASES / "41-iperf3-10g-into-1g/odroid.json"), *line)
    (limit,) = gather(run, run).limits
    assert (LimitCause.LINE.value in limit.words, bool(limit.confidence)) == (is_limit, is_limit)


SCTP = """\
Starting Test: protocol: SCTP, 2 streams, 65536 byte blocks, omitting 0 seconds, 10 second test, tos 0
[ ID] Interval           Transfer     Bitrate
[  5]   0.00-10.00  sec  3.75 MBytes  3145 Kbits/sec                  sender
[  5]   0.00-10.04  sec  3.69 MBytes  3080 Kbits/sec                  receiver
[SUM]   0.00-10.00  sec  7.50 MBytes  6291 Kbits/sec                  sender
[SUM]   0.00-10.04  sec  7.38 MBytes  6160 Kbits/sec                  receiver
"""
IN_A_LOG = "".join(f'iperf stdout:  "{line}"\n' for line in SCTP.splitlines())


def sums(sent, came, *, head="[ ID] Interval           Transfer     Bitrate", rest=""):
    return f"{head}\n[  5]   0.00-9.00   sec  1 GBytes  {sent} Gbits/sec  {rest} sender\n[  5]   0.00-9.00   sec  1 GBytes  {came} Gbits/sec  {rest} receiver\n"


BOTH_SUMS = """\
[ ID][Role] Interval           Transfer     Bitrate         Retr
[  5][TX-C]   0.00-9.00   sec  2 GBytes  1.90 Gbits/sec  734             sender
[  5][TX-C]   0.00-9.00   sec  2 GBytes  1.80 Gbits/sec                  receiver
[  7][RX-C]   0.00-9.00   sec  1 GBytes  0.90 Gbits/sec    0             sender
[  7][RX-C]   0.00-9.00   sec  1 GBytes  0.80 Gbits/sec                  receiver
"""


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        (sums(2, 1.9) + sums(4, 3.9), [1.9e9, 3.9e9]),
        (sums(2, 1.9) + "and then\n" + sums(4, 3.9).partition("\n")[2], [1.9e9, 3.9e9]),
        (sums(2, 1.9) + "[  5]   0.00-1.00   sec  1 GBytes  4.00 Gbits/sec\n" + sums(4, 3.9), [1.9e9, 3.9e9]),
        (sums(2, 1.9) + sums(4, 3.9, rest="0.006 ms  0/100 (0%) "), [1.9e9, 3.9e9]),
        (BOTH_SUMS + BOTH_SUMS + sums(2, 1.9), [2.6e9, 2.6e9, 1.9e9]),
    ],
)
def test_sums_of_several_tests_without_what_is_printed_before_them_are_several(text, rates):
    trials = IMPORTS["iperf3"].importer("x.txt", text.encode(), ImportOptions())
    assert [trial.measured.figures[whole_of(trial.measured.figures)]["goodput_bps"] for trial in trials] == pytest.approx(rates)


def sctp_json():
    said = recorded("3.12", "udp-client")
    sums = {
        name: {"seconds": 10.0, "bytes": 7864320, "bits_per_second": bps} for name, bps in (("sum_sent", 6.291e6), ("sum_received", 6.16e6))
    }
    test = said["start"]["test_start"] | {"protocol": "SCTP", "num_streams": 2, "blksize": 65536}
    return json.dumps(said | {"start": said["start"] | {"test_start": test}, "end": sums, "intervals": []})


@pytest.mark.parametrize("text", [SCTP, IN_A_LOG, sctp_json()])
def test_sctp_in_its_form(text):
    (trial,) = IMPORTS["iperf3"].importer("x.txt", text.encode(), ImportOptions())
    assert {name: trial.measured.figures["a"][name] for name in ("goodput_bps", "sent_bps")} == {"goodput_bps": 6.16e6, "sent_bps": 6.291e6}
    assert (trial.cell.params["protocol"], trial.cell.params["streams"], trial.cell.params["length_bytes"]) == ("sctp", 2, 65536)


def in_one_direction(bps, *, reverse):
    """A report of 3.16 with this rate."""
    said = recorded("3.16", "bidir-client")
    said["end"] = {name: of for name, of in said["end"].items() if "bidir" not in name and name != "streams"}
    said["start"] |= {
        "cookie": f"{bps}",
        "connected": [],
        "test_start": said["start"]["test_start"] | {"bidir": 0, "reverse": int(reverse)},
    }
    for name in ("sum_sent", "sum_received"):
        said["end"][name] |= {"bits_per_second": bps}
    return said


@pytest.mark.parametrize(("alone", "slower"), [((2.0, 2.0), ["a", "a.back"]), ((2.0, 1.0), ["a"]), ((1.0, 1.0), []), (None, [])])
def test_both_directions_at_once_are_shown_each_and_flagged_where_one_alone_is_faster(tmp_path, alone, slower):
    both = recorded("3.16", "bidir-client")
    rates = [both["end"][f"sum_received{back}"]["bits_per_second"] for back in ("", "_bidir_reverse")]
    reports = [in_one_direction(rate * times, reverse=back) for rate, times, back in zip(rates, alone or (), (False, True), strict=False)]
    for n, said in enumerate([both, *reports]):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "fw.json").write_text(json.dumps(said))
    run = imported(tmp_path, "iperf3", *(str(tmp_path / str(n) / "fw.json") for n in range(1 + len(reports))))
    report = gather(run, run)
    found = [of for of in report.findings if of.kind == "both-ways"]
    assert [of.evidence[0].said for of in found] == [f"goodput_bps of {place}" for place in slower]
    assert [of.price.percent for of in found] == pytest.approx([50.0] * len(slower))
    (table,) = report.answer.tables
    of_ways = [i for i, column in enumerate(table.columns) if column.group]
    assert [[row.cells[i].median for i in of_ways] for row in table.rows if row.cells[of_ways[0]]] == [pytest.approx(rates)]


def test_a_comparison_says_what_changed_between_two_versions_of_iperf3(tmp_path):
    for version in ("3.7", "3.16"):
        (tmp_path / f"of-{version[2:]}.json").write_bytes((RECORDED / f"{version}-bidir-client.json").read_bytes())
    run = imported(tmp_path, "iperf3", *(str(tmp_path / f"of-{minor}.json") for minor in (7, 16)))
    (pair,) = compare_modes(open_run(run), asked=CompareRequest(figures=("sender_cpu_percent",), better={"sender_cpu_percent": "lower"}))
    assert [change.since for change in pair.count_changes] == ["3.10"]
    (pair,) = compare_modes(open_run(run))
    assert pair.count_changes == (), "one stream and no warm-up: goodput is what it was"

"""Figures in what steps print: each program's own form, with the value read off by eye."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.interop.imported_run import Imported, imported_cell, write_imported
from dutlab.report.gather import gather
from dutlab.report.write import write_report
from dutlab.spec.workloads.steps import Step
from dutlab.tools.steps.account import ALL_HOSTS, Account, StepDone
from dutlab.tools.steps.figures import step_figures
from import_files import CASES
from outputs import output

DATA = Path(__file__).parents[1] / "data"

# Forms as the programs' own sources print them (the modules' docstrings say where); numbers made up.
IPERF3 = output("step_figures", "iperf3")
IPERF3_STREAMS = output("step_figures", "iperf3-streams")
IPERF3_UDP = output("step_figures", "iperf3-udp")
IPERF2 = output("step_figures", "iperf2")
UDP_OLD = [
    (CASES / name).read_text()
    for name in ("06-iperf3-udp-before-3.11/udp.json", "51-datagrams-iperf3-3.9/client.json", "51-datagrams-iperf3-3.9/server.json")
]
PKT_GEN = output("step_figures", "pkt-gen")
PKT_GEN_KILLED = "870.571509 main_thread [1418] 1400176 pps (1488384 pkts in 1062998 usec)\n" * 2
NETPERF = output("step_figures", "netperf")
NETPERF_RR = output("step_figures", "netperf-rr")
IPERF3_BYTES = output("step_figures", "iperf3-bytes")
NETPERF_UDP = output("step_figures", "netperf-udp")
NETPERF_BYTES = NETPERF.replace("10^6bits/sec", "KBytes  /sec").replace("9380.28", "1145053.71")
PING = output("step_figures", "ping")
PING_BSD = output("step_figures", "ping-bsd")
PMCSTAT = output("step_figures", "pmcstat")


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        (IPERF3, {"sent_bps": 2.26e9, "retransmits": 3, "goodput_bps": 2.25e9}),
        (IPERF3_STREAMS, {"sent_bps": 1.72e9, "retransmits": 12, "goodput_bps": 1.71e9}),
        (IPERF3_UDP, {"sent_bps": 10.5e6, "goodput_bps": 10.4e6, "jitter_ns": 13e3, "loss_ratio": 18 / 1812}),
        (IPERF2, {"goodput_bps": 936e6}),
        (UDP_OLD[0], {"goodput_bps": 750e6, "sent_bps": 1e9, "jitter_ns": 21e3, "loss_ratio": 0.25}),
        (UDP_OLD[1], {"goodput_bps": 1668 * 11680 / 1.000096, "sent_bps": 1711 * 11680 / 1.000096, "jitter_ns": 215669.859, "loss_ratio": 43 / 1711}),
        (UDP_OLD[2], {"goodput_bps": 2433820 * 8 / 1.040523, "jitter_ns": 215669.859, "loss_ratio": 43 / 1710}),
        (output("step_figures", "iperf3-3.1-tcp-server"), {"goodput_bps": 3.31e9}),
        (output("step_figures", "iperf3-3.1-udp-server"), {"goodput_bps": 28.55e6 / 1.5, "jitter_ns": 216e3, "loss_ratio": 43 / 2484}),
        (output("step_figures", "iperf3-3.0-udp"), {"sent_bps": 10e6, "goodput_bps": 7.5e6, "jitter_ns": 21e3, "loss_ratio": 0.25}),
        (PKT_GEN, {"offered_pps": 28394752 / 2}),
        (PKT_GEN_KILLED, {"received_pps": 1400176}),
        (NETPERF, {"goodput_bps": 9380.28e6}),
        (NETPERF_UDP, {"sent_bps": 10481.12e6, "goodput_bps": 7860.84e6, "loss_ratio": 0.25}),
        (NETPERF_BYTES, {"goodput_bps": 1145053.71 * 1024 * 8}),
        (IPERF3_BYTES, {"sent_bps": 125 * 2**20 * 8, "goodput_bps": 124 * 2**20 * 8, "retransmits": 4}),
        (NETPERF_RR, {"transactions_per_s": 41234.56}),
        (PING, {"loss_ratio": 0.1, "rtt_min_ns": 43e3, "rtt_avg_ns": 57e3, "rtt_max_ns": 81e3}),
        (PING_BSD, {"loss_ratio": 0.0, "rtt_min_ns": 43e3, "rtt_avg_ns": 57e3, "rtt_max_ns": 81e3}),
        (PMCSTAT, {"p_inst_retired_any/count": 3000, "p_cpu_clk_unhalted_thread/count": 900}),
        ("\nreal\t1m2.500s\nuser\t0m1.000s\nsys\t0m0.250s\n", {"real_s": 62.5, "user_s": 1.0, "sys_s": 0.25}),
        ("real 62.50\nuser 1.00\nsys 0.25\n", {"real_s": 62.5, "user_s": 1.0, "sys_s": 0.25}),
        ("       62.50 real         1.00 user         0.25 sys\n", {"real_s": 62.5, "user_s": 1.0, "sys_s": 0.25}),
        ("1.00user 0.25system 1:02.50elapsed 2%CPU (0avgtext+0avgdata 5688maxresident)k\n", {"real_s": 62.5, "user_s": 1.0, "sys_s": 0.25}),
        ("nothing of the kind: 12 Gbits/sec\n", {}),
    ],
    ids=["iperf3", "streams", "udp", "iperf2", "udp 3.7", "udp 3.9", "udp server 3.9", "tcp server 3.1",
         "udp server 3.1", "udp 3.0", "pkt-gen", "pkt-gen killed", "netperf", "netperf udp", "netperf in bytes",
         "iperf3 in bytes, an interval of 5 s", "netperf rr", "ping", "bsd ping", "pmcstat", "bash", "sh",
         "freebsd", "gnu", "none"],
)  # fmt: skip
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_programs_own_figures_are_found(text, figures, stream):
    streams = {"stdout": b"", "stderr": b"", stream: text.encode()}
    assert step_figures(**streams) == pytest.approx(figures)


def test_a_server_that_two_clients_used_has_the_figure_of_each():
    text = (
        "-----------------\n"
        + IPERF3.replace("2.25 Gbits/sec                  rec", "1.50 Gbits/sec                  rec")
        + "-----\n"
        + IPERF3
    )
    found = step_figures(text.encode(), b"")
    assert (found["goodput_bps"], found["run_2/goodput_bps"]) == (1.5e9, 2.25e9)


RECEIVED = re.compile(r'"sum_received":\s*{[^}]*"bits_per_second":\s*([\d.e+]+)')


@pytest.mark.parametrize(
    "file", [p for p in sorted((DATA / "iperf3").glob("*.json")) if RECEIVED.search(p.read_text())], ids=lambda p: p.name
)
def test_a_recorded_report_of_iperf3_has_the_rate_that_it_says(file):
    text = file.read_text()
    found = step_figures(b"iperf3: a word before\n" + text.encode(), b"")
    expected = {} if '"error"' in text else {"goodput_bps": pytest.approx(float(RECEIVED.findall(text)[-1]))}
    assert {name: value for name, value in found.items() if name == "goodput_bps"} == expected


@settings(max_examples=40)
@given(
    st.binary(max_size=300), st.sampled_from([IPERF3, NETPERF, PMCSTAT, '{"end": {"sum": 3}}', '{"statistics": 1}\n']), st.integers(0, 900)
)
def test_no_output_is_too_broken(noise, text, cut):
    assert all(isinstance(v, float) for v in step_figures(text.encode()[:cut] + noise, noise).values())


def done(host, phase, place, stdout, **options):
    return StepDone(host, phase, place, Step(run="iperf3 -c x", name=f"step{place}"), 1e9, 2.0, 0, stdout, **options)


def test_the_report_has_a_value_a_trial_its_median_and_each_output_grouped_by_host(tmp_path):
    trials = []
    for rate in ("2.25", "2.27", "2.20"):
        output = IPERF3.replace("2.25 Gbits/sec                  rec", f"{rate} Gbits/sec                  rec").encode()
        account = Account(
            done=[done("sink", "startup", 1, b"up\n"), done("source", "run", 1, output, stderr=b"warned\n"), done("source", "run", 2, b"")]
        )
        trials.append(Imported(imported_cell("here", workload="steps", tool="steps", link=ALL_HOSTS, params={}), account.measured()))
    run = write_imported(tmp_path, "steps", trials, command=(), now=datetime(2026, 1, 1, tzinfo=UTC))
    written = {p.suffix: p.read_text() for p in write_report([run.path], formats=("html", "md", "csv", "json"), out=None)}
    goodput = next(line for line in written[".md"].splitlines() if "| source |" in line)
    assert [cell.strip() for cell in goodput.split("|")][2:6] == ["source", "run", "step1", "iperf3 -c x"]
    assert "2.25" in goodput and "2.27" in goodput and "2.20" in goodput
    (fast,) = gather(run.path, tmp_path).answer.fast
    assert fast.startswith("source, run, step1: "), "what people keep, not how long the trial took"
    text = written[".html"]
    places = [
        text.index(words)
        for words in ("Goodput, by step and trial", "sink: each step", "source: each step", "<summary>Start of each host after")
    ]
    assert places == sorted(places)
    for ending in ("out", "err"):
        file = f"trials/0002/raw/source/run/01.{ending}"
        assert f'href="../{file}"' in text
        assert f"(../{file})" in written[".md"]
        assert (run.path / file).is_file()
    rows = list(csv.DictReader(io.StringIO(written[".csv"])))
    assert {row["median"] for row in rows if row["figure"] == "goodput_bps"} == {"2250000000.0", "2270000000.0", "2200000000.0"}


def test_the_answer_of_steps_that_print_no_figure_is_how_long_they_took(tmp_path):
    account = Account(done=[done("source", "run", 1, b"up\n")])
    trial = Imported(imported_cell("here", workload="steps", tool="steps", link=ALL_HOSTS, params={}), account.measured())
    run = write_imported(tmp_path, "steps", [trial], command=(), now=datetime(2026, 1, 1, tzinfo=UTC))
    (fast,) = gather(run.path, tmp_path).answer.fast
    assert "duration 2.0" in fast

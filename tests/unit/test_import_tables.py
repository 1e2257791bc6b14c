"""Importers of testers: iperf 2, wrk, TRex (counters and ndr_bench), nfvbench, CSIT."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pprint import pformat

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions, Omission
from dutlab.interop.importers import read_data
from import_files import DATA, csit, csit_draft, ndr, nfvbench, trex_astf, trex_stl

CUT = DoubtKind.TOOL_INCOMPLETE


def read(kind, data, name="box.txt"):
    return read_data(kind, name, data, ImportOptions())


def kept(kind, name):
    return read(kind, (DATA / kind / name).read_bytes(), name)


def tcp(bps, *, streams=1, direction="forward"):
    return ({"goodput_bps": bps}, {"protocol": "tcp", "streams": streams, "direction": direction})


PLACES = {"forward": "a", "reverse": "a.back", "both": "a+a.back"}
OF_2 = {"streams": 2}


@pytest.mark.parametrize(
    ("name", "expected"),
    [  # written by iperf 2.1.8 of Debian 12 on loopback
        ("tcp-P2.txt", [tcp(5.5e9, streams=2)]),
        ("tcp-e.txt", [({"goodput_bps": 3.81e9, "retransmits": 3.0}, {"protocol": "tcp"})]),
        ("tcp-R.txt", [tcp(3.91e9, direction="reverse")]),
        ("tcp-full-duplex.txt", [tcp(3.25e9, direction="both")]),
        ("tcp-d.txt", [tcp(9.25e9, streams=2, direction="both")]),
        ("tcp-r.txt", [tcp(26.5e9), tcp(30.2e9, direction="reverse")]),
        ("tcp-i.csv", [tcp(24327317679.0)]),
        ("tcp-P2-i.csv", [tcp(4827127218.0 + 4619806591.0, streams=2)]),
        ("tcp-P2.csv", [({"goodput_bps": 1314606311.0}, {"stream": 1}), ({"goodput_bps": 1793216409.0}, {"stream": 2})]),
        ("tcp-server.txt", [tcp(6.62e9), tcp(5.46e9, streams=2), tcp(3.78e9), tcp(3.84e9, direction="reverse"),
                            tcp(3.23e9, direction="both"), tcp(18.7e9)]),
        ("tcp-d-server.txt", [tcp(9.27e9, streams=2, direction="both"), tcp(27e9), tcp(30.1e9, direction="reverse"), tcp(9.51e9, streams=2)]),
        ("udp-i.txt", [({"sent_bps": 20e6, "goodput_bps": 20e6, "loss_ratio": 0.0, "jitter_ns": 3000.0}, {"protocol": "udp"})]),
        ("udp-P2.txt", [({"sent_bps": 40e6, "goodput_bps": 40.1e6, "loss_ratio": 1 / 3408}, OF_2)]),
        ("udp-P2-server.txt", [({"goodput_bps": 40e6, "loss_ratio": 1 / 3408, "jitter_ns": 1000.0}, OF_2)]),
        ("udp-loss.txt", [({"sent_bps": 1.86e9, "goodput_bps": 227e6, "loss_ratio": 148372 / 168924}, {"protocol": "udp"})]),
        ("udp-R.txt", [({"goodput_bps": 20e6, "loss_ratio": 0.0}, {"direction": "reverse"})]),
        ("udp-server.csv", [({"goodput_bps": 20368655.0, "loss_ratio": 0.0}, {"protocol": "udp"})]),
        ("udp-i.csv", [({"sent_bps": 20010874.0}, {"protocol": "udp"})]),
        ("udp-R-server.txt", [({"sent_bps": 20e6}, {"direction": "reverse"})]),
    ],
)  # fmt: skip
def test_iperf2(name, expected):
    trials = kept("iperf2", name)
    assert len(trials) == len(expected)
    for trial, (figures, params) in zip(trials, expected, strict=True):
        places = trial.measured.figures
        found = places[PLACES[trial.cell.params["direction"]]]
        assert len(places) == (3 if trial.cell.params["direction"] == "both" else 1)
        assert {key: found[key] for key in figures} == pytest.approx(figures)
        assert {key: trial.cell.params[key] for key in params} == params
        incomplete = "stream" in trial.cell.params or "goodput_bps" not in found
        assert [d.kind for d in trial.measured.doubts] == [CUT] * incomplete


@pytest.mark.parametrize(
    ("name", "column", "rates"),
    [
        ("tcp-P2.txt", "goodput_bps", [4.51e9, 6.49e9]),
        ("tcp-P2-i.csv", "goodput_bps", [9320793024.0, 9769582592.0]),
        ("udp-i.txt", "sent_bps", [20e6, 20e6]),
        ("udp-i.csv", "sent_bps", [20015520.0, 20003760.0]),
    ],
)
def test_seconds_of_iperf2_are_of_all_streams(name, column, rates):
    (trial,) = kept("iperf2", name)
    assert [row[column] for row in trial.measured.tables["seconds"]] == pytest.approx(rates)


def test_iperf2_counts_datagrams_and_its_line_is_that_of_their_length():
    (trial,) = kept("iperf2", "udp-loss.txt")
    assert trial.datagram_bytes == 1400
    bare = "[  4]  0.0- 1.0 sec  60.3 KBytes   494 Kbits/sec  12.2 ms    4/   42 (9.5%)\n[  4]  0.0- 2.0 sec   119 KBytes   488 Kbits/sec  12.5 ms    4/   80 (5%)\n"
    (trial,) = read("iperf2", f"[  4] local 10.0.0.1 port 5001 connected with 10.0.0.2 port 50375\n{bare}".encode())
    assert trial.cell.params["protocol"] == "udp", "also without its header"
    assert trial.measured.figures["a"] == {"goodput_bps": 488e3, "loss_ratio": 0.05, "jitter_ns": 12.5e6}
    text = (DATA / "iperf2" / "udp-i.txt").read_bytes().replace(b"0/3402", b"-5/3402")
    (below,) = read("iperf2", text)
    assert (below.measured.figures["a"]["loss_ratio"], [d.kind for d in below.measured.doubts]) == (0, [DoubtKind.NEGATIVE_LOSS])


@pytest.mark.parametrize(
    ("name", "figures", "params"),
    [  # written by wrk 4.1.0 of Debian 12 on loopback
        (
            "latency.txt",
            {"transactions_per_s": 182.18, "goodput_bps": 391.75 * 8192, "latency_mean_ns": 40.04e6, "latency_max_ns": 267.9e6,
             "latency_p50_ns": 24.74e6, "latency_p90_ns": 98.75e6, "latency_p99_ns": 191.13e6, "failed_ratio": 0.0},
            {"threads": 2, "connections": 8, "duration_s": 2.0},
        ),
        ("plain.txt", {"transactions_per_s": 108.15}, {"threads": 1}),
        ("non-2xx.txt", {"failed_ratio": 1.0}, {"url": "http://127.0.0.1:8123/missing"}),
    ],
)  # fmt: skip
def test_wrk(name, figures, params):
    (trial,) = kept("wrk", name)
    assert {key: trial.measured.figures["a"][key] for key in figures} == pytest.approx(figures)
    assert {key: trial.cell.params[key] for key in params} == params


def test_wrk_names_socket_errors_and_a_test_that_was_cut():
    (trial,) = kept("wrk", "socket-errors.txt")
    assert [(o.what, o.why) for o in trial.left_out] == [("socket errors", Omission.NO_MEASURE)]
    whole = (DATA / "wrk" / "plain.txt").read_bytes()
    (first,) = read("wrk", whole + whole[: whole.index(b"Requests/sec")])
    assert [d.kind for d in first.measured.doubts] == [CUT]
    with pytest.raises(InputError):
        read("wrk", whole[: whole.index(b"Requests/sec")])


def test_trex_counters_of_stl():
    (trial,) = read("trex-stats", trex_stl())
    figures = trial.measured.figures["a"]
    expected = {
        "offered_pps": 1e6, "received_pps": 0.999e6, "loss_ratio": 0.001, "sent_frames": 1e6, "generator_cpu_percent": 31.5,
        "pg5/latency_mean_ns": 21.5e3, "pg5/latency_max_ns": 180e3, "pg5/lost_frames": 2, "pg5/reordered_frames": 1, "pg5/received_frames": 998,
    }  # fmt: skip
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert trial.cell.params["frame_size"] == 64
    assert trial.assumed and any(o.why is Omission.NO_MEASURE for o in trial.left_out)


def test_rates_of_trex_at_rest_are_no_result_and_its_counters_are():
    still = dict.fromkeys(("tx_pps", "rx_pps", "tx_bps", "rx_bps", "tx_bps_L1", "rx_bps_L1"), 0.0)
    (trial,) = read("trex-stats", trex_stl(**still))
    figures = trial.measured.figures["a"]
    assert figures["loss_ratio"] == pytest.approx(0.001) and not {"offered_pps", "received_pps"} & figures.keys()
    assert ("rates", 6) in [(o.what, o.count) for o in trial.left_out]
    (more,) = read("trex-stats", trex_stl(ipackets=1_100_000))
    assert (more.measured.figures["a"]["loss_ratio"], [d.kind for d in more.measured.doubts]) == (0, [DoubtKind.NEGATIVE_LOSS])


def test_trex_counters_of_astf():
    (trial,) = read("trex-stats", trex_astf())
    figures = trial.measured.figures["a+a.back"]
    expected = {
        "goodput_bps": 3.718e8, "client/goodput_bps": 3.69e8, "established_connections": 333_115, "failed_ratio": 5 / 333_120,
        "server/retransmits": 7, "port0/latency_mean_ns": 35.5e3, "completed_per_s": 11_104,
    }  # fmt: skip
    assert {name: figures[name] for name in expected} == pytest.approx(expected)
    assert trial.cell.workload == "trex-astf" and "loss_ratio" not in figures
    (wrong,) = read("trex-stats", trex_astf(err={"tcps_drops": "connections dropped"}))
    assert [d.kind for d in wrong.measured.doubts] == [CUT]


def test_nfvbench():
    (trial,) = read("nfvbench", nfvbench())
    figures = trial.measured.figures["a+a.back"]
    assert (figures["ndr/lower_pps"], figures["pdr/lower_pps"], figures["ndr/loss_ratio"]) == pytest.approx((2e6, 2.5e6, 0.001))
    assert (figures["ndr/latency_min_ns"], figures["ndr/latency_mean_ns"], figures["ndr/latency_max_ns"]) == (20e3, 30e3, 120e3)
    assert {name: trial.cell.params[name] for name in ("service_chain", "frame_size", "duration_s", "ndr_loss_percent")} == {
        "service_chain": "PVP", "frame_size": 64, "duration_s": 60, "ndr_loss_percent": 0.001,
    }  # fmt: skip
    (none,) = read("nfvbench", nfvbench(rate_pps=0))
    assert "pdr/lower_pps" in none.measured.figures["a+a.back"] and "ndr/lower_pps" not in none.measured.figures["a+a.back"]
    assert [d.kind for d in none.measured.doubts] == [DoubtKind.NO_LOWER_BOUND]
    (fixed,) = read("nfvbench", nfvbench(search=False))
    figures = fixed.measured.figures["a+a.back"]
    assert (figures["intended_pps"], figures["received_pps"], figures["loss_ratio"], figures["latency_mean_ns"]) == (
        10_000,
        9_900,
        0.01,
        40e3,
    )


@pytest.mark.parametrize(
    ("result", "figures"),
    [
        (None, {"ndr/lower_pps": 9.5e6, "pdr/lower_pps": 11e6, "ndr/lower_bps_l1": 9.5e6 * 672}),
        ({"type": "mrr", "receive_rate": {"rate": {"unit": "pps", "values": [9e6, 11e6, 10e6]}}}, {"received_pps": 10e6}),
        ({"type": "soak", "critical_rate": {"lower": {"rate": {"value": 7e6, "unit": "pps"}}, "upper": {"rate": {"value": 8e6, "unit": "pps"}}}},
         {"critical/lower_pps": 7e6, "critical/upper_pps": 8e6}),
        ({"type": "reconf", "loss": {"packet": {"value": 12, "unit": "packets"}, "time": {"value": 0.002, "unit": "s"}}, "aggregate_rate": {"rate": {"value": 6e6, "unit": "pps"}}},
         {"outage_ns": 2e6, "lost_frames": 12, "offered_pps": 6e6}),
        ({"type": "hoststack", "bandwidth": {"value": 9.1e9, "unit": "bps"}, "rate": {"value": 5e4, "unit": "rps"}, "latency": {"value": 2, "unit": "ms"}},
         {"goodput_bps": 9.1e9, "completed_per_s": 5e4, "latency_ns": 2e6}),
        ({"type": "ndrpdr", "ndr": {"lower": {"rate": {"value": 5e4, "unit": "cps"}}}, "pdr": {"lower": {"rate": {"value": 6e4, "unit": "cps"}}}},
         {"ndr/connections_lower_per_s": 5e4, "pdr/connections_lower_per_s": 6e4}),
    ],
)  # fmt: skip
def test_csit(result, figures):
    (trial,) = read("csit", csit(result))
    assert {name: trial.measured.figures["a+a.back"][name] for name in figures} == pytest.approx(figures)
    if result is None:
        assert [trial.measured.figures[place]["pdr_90/latency_mean_ns"] for place in ("a", "a.back")] == [12e3, 12e3]
    assert (trial.cell.params["test"], trial.measured.facts["dut_version"]) == ("10ge2p1x710-64b-2t1c-ethip4-ip4base-ndrpdr", "26.02")
    assert trial.started == datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)


BOUNDS = {"lower": 9e6, "upper": 10e6}
TIMES = {"min": 5.0, "avg": 12.0, "max": 90.0, "hdrh": ""}
NONE = dict.fromkeys(TIMES, -1.0)


@pytest.mark.parametrize(
    ("kind", "results", "figures"),
    [
        ("MRR", {"unit": "pps", "samples": [9e6, 11e6, 10e6], "avg": 10e6}, {"received_pps": 10e6}),
        ("MRR", {"test": {"unit": "pps", "value": {"receive-rate": [9e6, 11e6, 10e6]}}}, {"received_pps": 10e6}),
        ("NDRPDR", {"throughput": {"unit": "pps", "ndr": {"value": BOUNDS, "value_gbps": {"lower": 6.0, "upper": 6.7}}},
                    "latency": {"forward": {"pdr_90": TIMES}, "reverse": {"pdr_90": NONE}}},
         {"ndr/lower_pps": 9e6, "ndr/upper_pps": 10e6, "ndr/lower_bps_l1": 6e9}),
        ("NDRPDR", {"test": {"ndr": {"value_pps": BOUNDS}, "hdrh": {"forward": {"pdr-90": "5/12/90/HISTFAAAA"}}}}, {"ndr/lower_pps": 9e6}),
        ("NDRPDR", {"test": {"ndr": {"unit": "pps", "value": {"lower": "9000000.0", "upper": "1e7"}}, "hdrh": {"forward": {"pdr-90": TIMES}}}},
         {"ndr/lower_pps": 9e6, "ndr/upper_pps": 10e6}),
        ("NDRPDR", {"throughput": {"unit": "cps", "pdr": {"value": BOUNDS, "value_gbps": {"lower": -1.0}}}}, {"pdr/connections_lower_per_s": 9e6}),
        ("SOAK", {"critical-rate": BOUNDS}, {"critical/lower_pps": 9e6, "critical/upper_pps": 10e6}),
        ("SOAK", {"test": {"throughput": BOUNDS, "node": {}}}, {"critical/lower_pps": 9e6}),
        ("SOAK", {"test": {"unit": "pps", "value": BOUNDS}}, {"critical/lower_pps": 9e6}),
        ("RECONF", {"test": {"result": {"loss": 12, "time": 0.002}}}, {"outage_ns": 2e6, "lost_frames": 12}),
        ("HOSTSTACK", {"seconds": 20.0, "bits_per_second": 9.1e9, "retransmits": 3}, {"goodput_bps": 9.1e9, "retransmits": 3}),
        ("HOSTSTACK", {"client": {"rx_bits_per_second": 0.0}, "server": {"rx_bits_per_second": 1.7e9}}, {"goodput_bps": 1.7e9}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("below_test", [False, True])
def test_a_draft_of_csit(kind, results, figures, below_test):
    (trial,) = read("csit", csit_draft(kind, results, below_test=below_test))
    found = trial.measured.figures
    assert {name: found["a+a.back"][name] for name in figures} == pytest.approx(figures)
    if "forward" in str(results):
        assert (found["a"]["pdr_90/latency_mean_ns"], "a.back" in found) == (12e3, False)
    assert (trial.cell.params["type"], trial.measured.facts["dut_version"]) == (kind.lower(), "26.02")
    assert trial.started == datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)


def test_counters_as_python_prints_them_and_an_answer_of_nfvbenchs_server_are_read():
    said = json.loads(trex_stl())
    said["latency"] = {5: said["latency"]["5"]}
    (trial,), (as_json,) = read("trex-stats", f"stats:\n{pformat(said)}\n".encode()), read("trex-stats", trex_stl())
    assert trial.measured.figures == as_json.measured.figures
    answer = {"status": "OK", "result": json.loads(nfvbench())}
    for printed in (json.dumps(answer), repr(answer)):
        (trial,) = read("nfvbench", printed.encode())
        assert trial.measured.figures == read("nfvbench", nfvbench())[0].measured.figures


@pytest.mark.parametrize("changed", [{"passed": False, "message": "VPP crashed"}, {"result": {"type": "unknown"}}])
def test_a_test_of_csit_that_failed_or_has_no_figures_has_no_result(changed):
    with pytest.raises(InputError):
        read("csit", csit(**changed))


def test_a_field_in_a_unit_that_nobody_knows_is_left_out():
    (trial,) = read(
        "csit", csit({"type": "hoststack", "bandwidth": {"value": 9.1e9, "unit": "bps"}, "latency": {"value": 2, "unit": "lightyears"}})
    )
    assert "latency_ns" not in trial.measured.figures["a+a.back"]
    assert Omission.UNREADABLE in [o.why for o in trial.left_out]


def test_trex_ndr_keeps_both_rates_and_says_what_its_goal_was():
    (trial,) = read("trex-ndr", ndr(), "vpp.json")
    figures = trial.measured.figures["a"]
    assert (figures["offered_pps"], figures["received_pps"], figures["loss_ratio"]) == (6.25e6, 6.246875e6, 0.0005)
    assert (figures["latency_min_ns"], figures["latency_mean_ns"], figures["latency_max_ns"]) == (12e3, 21.5e3, 180e3)
    assert trial.cell.params == {"frame_size": 64, "directions": "forward", "duration_s": 20.0, "loss_percent": 0.1}
    assert figures["offered_bps_l1"] == pytest.approx(figures["offered_pps"] * (64 + 20) * 8)
    assert any("0.1 % loss" in note for note in trial.measured.notes)
    printed = b"Bench Run has finished :-)\n" + pformat(ndr().decode()).encode()
    assert printed.count(b"\n") > 5
    assert read("trex-ndr", printed)[0].measured.figures == trial.measured.figures, "as Python prints its text"
    (stopped,) = read("trex-ndr", ndr(total_iterations=10))
    assert any("may be higher" in note for note in stopped.measured.notes)

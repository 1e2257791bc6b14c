"""Kinds of published files of testers that were read wrongly: for each the lines that matter, with the figures worked out by hand.

Each comment names the public repository where the form was found.
"""

from __future__ import annotations

import json
from pprint import pformat

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions
from dutlab.interop.importers import read_data
from import_files import nfvbench


def read(kind, text):
    return read_data(kind, "box.txt", text.encode(), ImportOptions())


def doubts(trials):
    return [doubt.kind for trial in trials for doubt in trial.measured.doubts]


def figures(trials):
    """Figures of each trial at its first place."""
    return [dict(next(iter(trial.measured.figures.values()))) for trial in trials]


# opnfv/nfvbench, test/ut_behave_tests/test_data: NDR at 200 % of a port, of 64-byte frames, of which the generator sent 22 %.
UNREACHED = {
    "rate_pps": 74404760,
    "rate_bps": 50000000000.0,
    "stats": {
        "0": {"tx_pkts": 83760820, "rx_pkts": 83251507},
        "1": {"tx_pkts": 83251507, "rx_pkts": 83760820},
        "overall": {"tx_pkts": 167012327, "rx_pkts": 167012327, "drop_percentage": 0.0, "avg_delay_usec": 35.5},
        "total_tx_rate": 16701232,
        "warning": "WARNING: There is a significant difference between requested TX rate (74404760) and actual TX rate (16701232).",
    },
}


def test_a_rate_that_nfvbench_asked_for_but_did_not_send_is_no_bound():
    trials = read("nfvbench", nfvbench(**UNREACHED).decode())
    (found,) = figures(trials)
    assert (found["ndr/lower_pps"], found["pdr/lower_pps"]) == (16701232, 2_500_000)
    assert found["ndr/lower_bps_l1"] == pytest.approx(16701232 * 84 * 8)
    assert doubts(trials) == [DoubtKind.TX_STARVED]


def test_a_fixed_rate_that_nfvbench_did_not_send_is_doubted():
    document = json.loads(nfvbench(search=False))
    (result,) = document["benchmarks"]["network"]["service_chain"]["PVP"]["result"]["result"].values()
    result["run_config"]["direction-total"]["orig"]["rate_pps"] = 20_000
    assert doubts(read("nfvbench", json.dumps(document))) == [DoubtKind.TX_STARVED]


def test_a_page_of_the_database_of_results_has_every_result_of_nfvbench():  # opnfv/nfvbench, the same folder
    answers = [
        {"input": {"rate": rate}, "output": {"status": "OK", "result": json.loads(nfvbench(rate_pps=pps))}}
        for rate, pps in (("ndr", 2_000_000), ("pdr", 2_100_000))
    ]
    page = {"pagination": {"current_page": 1}, "results": [{"criteria": "PASS", "details": {"results": {"throughput": answers}}}]}
    assert [of["ndr/lower_pps"] for of in figures(read("nfvbench", json.dumps(page)))] == [2_000_000, 2_100_000]


# jmhen/congestion-control: both ends ran until they were ended, the client's buffer took the first second.
INTERVALS = """------------------------------------------------------------
{head}
------------------------------------------------------------
[  4] local {here} port {port} connected with {there} port {far}
[ ID] Interval       Transfer     Bandwidth
[  4]  0.0- 1.0 sec  {first}
[  4]  1.0- 2.0 sec   175 KBytes  1.44 Mbits/sec
[  4]  2.0- 3.0 sec   173 KBytes  1.41 Mbits/sec
"""
SERVER = INTERVALS.format(
    head="Server listening on TCP port 5001", here="10.0.0.2", port=5001, there="10.0.0.1", far=56591, first=" 177 KBytes  1.45 Mbits/sec"
)
CLIENT = INTERVALS.format(
    head="Client connecting to 10.0.0.2, TCP port 5001",
    here="10.0.0.1",
    port=56591,
    there="10.0.0.2",
    far=5001,
    first="20.0 MBytes   168 Mbits/sec",
)


def test_the_first_second_of_iperf_2_is_not_its_total():
    trials = read("iperf2", SERVER)
    assert figures(trials) == [{"goodput_bps": pytest.approx((1.45e6 + 1.44e6 + 1.41e6) / 3)}]
    assert doubts(trials) == [DoubtKind.TOOL_INCOMPLETE]
    assert trials[0].cell.setting.said["duration_s"] == 3
    with pytest.raises(InputError):
        read("iperf2", CLIENT)


def test_a_client_of_iperf_2_that_was_ended_is_named_among_complete_tests():
    total = "[  4]  0.0- 3.0 sec   525 KBytes  1.43 Mbits/sec\n"
    trials = read("iperf2", CLIENT.replace("56591", "56590") + total + CLIENT)
    assert figures(trials) == [{"goodput_bps": 1.43e6}]
    assert doubts(trials) == [DoubtKind.TOOL_INCOMPLETE]


# A parser's test keeps such a fragment: four streams with -i, cut in the second interval.
CUT = """20120912102944,192.168.20.50,56843,192.168.20.99,5001,4,0.0-1.0,786432,6291456
20120912102945,192.168.20.50,56844,192.168.20.99,5001,6,0.0-1.0,655360,5242880
20120912102945,192.168.20.50,56842,192.168.20.99,5001,5,0.0-1.0,655360,5242880
20120912102945,192.168.20.50,0,192.168.20.99,5001,-1,0.0-1.0,2752512,22020096
20120912102946,192.168.20.50,56844,192.168.20.99,5001,6,1.0-2.0,917504,7340032
"""


def test_the_first_interval_of_a_stream_is_not_its_total_in_csv_either():
    with pytest.raises(InputError):
        read("iperf2", CUT)
    total = "20120912102954,192.168.20.50,56844,192.168.20.99,5001,6,0.0-10.0,7864320,6291456\n"
    assert figures(read("iperf2", CUT + total)) == [{"goodput_bps": 6291456}]


def test_the_server_of_an_ended_client_of_iperf_2_remains():
    trials = read("iperf2", CLIENT + SERVER)
    assert figures(trials) == figures(read("iperf2", SERVER))
    assert trials[0].cell.setting.said["direction"] == "forward"


# jiyiyun/linux: a page that shows a test at its client, then at its server; other pages have them in the other order.
AT_CLIENT = """# iperf -u -c 192.168.15.161 -b 100M -t 60
Client connecting to 192.168.15.161, UDP port 5001
Sending 1470 byte datagrams
[  3] local 192.168.3.160 port 48802 connected with 192.168.15.161  port 5001
[  3]  0.0-60.0 sec   719 MBytes   100 Mbits/sec
[  3] Sent 512675 datagrams
"""
AT_SERVER = """# iperf -u -s
Server listening on UDP port 5001
Receiving 1470 byte datagrams
[  3] local 192.168.15.161 port 5001 connected with 192.168.3.160 port 48802
[  3]  0.0-60.0 sec   684 MBytes  95.7 Mbits/sec   0.107 ms 24605/512674 (4.8%)
"""


@pytest.mark.parametrize("text", [AT_CLIENT + AT_SERVER, AT_SERVER + AT_CLIENT])
def test_both_ends_of_a_test_of_iperf_2_are_one_trial(text):
    trials = read("iperf2", text)
    assert figures(trials) == [{"sent_bps": 1e8, "goodput_bps": 95.7e6, "loss_ratio": 24605 / 512674, "jitter_ns": pytest.approx(107e3)}]
    assert (doubts(trials), trials[0].cell.setting.said["direction"]) == ([], "forward")


def port(sent, came, **more):
    frames = {"opackets": sent, "ipackets": came, "obytes": 64 * sent, "ibytes": 64 * came, "ierrors": 0, "oerrors": 0}
    return frames | {"tx_pps": sent / 30, "rx_pps": came / 30, "tx_bps": sent * 17.0, "rx_bps": came * 17.0} | more


def reading(sent, came):
    """Counters in the form of trex-txrx of trafficgen, which a search prints at each trial."""
    return {"0": port(sent, came), "1": port(sent, came), "total": port(2 * sent, 2 * came), "global": {"cpu_util": 62.6}, "flow_stats": {}}


def test_a_log_of_a_search_with_trex_has_each_reading():  # redhat-performance's and atheurer's trafficgen: binary-search.py
    trials = [reading(672890586, 672312848), reading(600000000, 600000000)]
    log = "".join(f"search\nREADABLE RESULT:\n{{}}\nPARSABLE RESULT: {json.dumps(of, separators=(',', ':'))}\n" for of in trials)
    found = read("trex-stats", log + "trial passed, percent loss 0.0\n")
    assert [of["loss_ratio"] for of in figures(found)] == [pytest.approx(577738 / 672890586), 0.0]
    assert [trial.cell.setting.said["reading"] for trial in found] == [1, 2]  # of other rates: not repeats
    (single,) = read("trex-stats", log.split("search\n")[1])
    assert "reading" not in single.cell.setting.said
    assert figures([single])[0]["generator_cpu_percent"] == 62.6


@pytest.mark.parametrize(
    "printed",
    [
        lambda of: f"2025-02-10 05:12:47,549 - run-trex - INFO - {json.dumps(of, indent=4)}\n",  # example-cnf, docs of its scenarios
        lambda of: f"port_{of['n']} stats:\n\n{pformat(of)}\n\n",  # trex-core, doc/trex_cookbook.asciidoc
    ],
)
def test_counters_of_trex_that_were_printed_port_by_port_are_one_reading(printed):
    ports = [port(240_000_001, 200_000_001, n=0), port(240_000_001, 240_000_001, n=1)]
    (trial,) = read("trex-stats", "{'kind': 'TRexApp'}\n" + "".join(map(printed, ports)) + "Packets lost from 1 to 0: 40000000 packets\n")
    found = trial.measured.figures["a+a.back"]
    assert (found["sent_frames"], found["received_frames"]) == (480_000_002, 440_000_002)
    assert found["loss_ratio"] == pytest.approx(40 / 480, rel=1e-6)
    assert trial.cell.setting.said["frame_size"] == 64


@pytest.mark.parametrize(
    "line",
    [
        "Warning: --bidir option is in use and is an experimental feature with known problems. Use with caution.",  # netperf/netperf-api
        "Control connection MSS 1448",  # K9A2/PythonDataAnalysis, of 72 files with -V -J
    ],
)
def test_a_line_that_iperf3_itself_prints_before_its_report_is_no_doubt(line):
    names = ("sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse")
    rates = {name: {"bits_per_second": bps} for name, bps in zip(names, (9.14e8, 9.1e8, 9.31e8, 9.26e8), strict=True)}
    report = json.dumps({"start": {}, "intervals": [], "end": {"streams": [], **rates}}, indent="\t")
    trials = read("iperf3", f"{line}\n{report}")
    assert figures(trials)[0]["goodput_bps"] == 18.36e8
    assert doubts(trials) == []


PKT_GEN = "{time} main_thread [2666] {pps} Mpps ({packets} Mpkts {bits} Gbps in {us} usec) 497.42 avg_batch 99999 min_space\n"
SENDER = [("957.106303", "27.015", "28.730", "12.967", 1063499), ("958.169302", "27.016", "28.718", "12.967", 1062999)]
RECEIVER = [("957.306302", "3.668", "3.901", "1.761", 1063498), ("958.369303", "3.669", "3.900", "1.761", 1063001)]


def pkt_gen(reports):
    return "".join(PKT_GEN.format(**dict(zip(("time", "pps", "packets", "bits", "us"), of, strict=True))) for of in reports)


def test_reports_of_two_pkt_gen_in_one_shell_are_not_of_one_run():  # an article on bridges of FreeBSD: sender and receiver in turn
    trials = read("pkt-gen", pkt_gen(sorted(SENDER + RECEIVER)))
    sent, came = figures(trials)
    assert (sent["offered_pps"], came["received_pps"]) == (pytest.approx(27.0154e6, rel=1e-4), pytest.approx(3.6685e6, rel=1e-4))
    assert "received_pps" not in sent
    (single,) = figures(read("pkt-gen", pkt_gen(SENDER)))
    assert single["offered_pps"] == sent["offered_pps"]


def test_a_late_line_of_pkt_gen_does_not_make_two_processes_of_one():
    ends = (950.0, 951.0, 952.0, 953.4, 954.0, 955.0, 956.0)
    (single,) = figures(read("pkt-gen", pkt_gen([(f"{end:.6f}", "1.000", "1.000", "0.480", 1_000_000) for end in ends])))
    assert single["offered_pps"] == pytest.approx(1e6)


def test_the_command_of_pkt_gen_says_which_end_its_reports_are():  # a page on netmap and veth
    text = f"# ./pkt-gen -i veth1 -f tx\n{pkt_gen(SENDER)}\n# ./pkt-gen -i veth2 -f rx\n{pkt_gen(RECEIVER)}"
    sent, came = figures(read("pkt-gen", text))
    assert ("offered_pps" in sent, "received_pps" in came) == (True, True)


OMNI = ["MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 20001 AF_INET to 104.154.50.86 () port 20001 AF_INET : first burst 0",
        "Throughput,Throughput Units,50th Percentile Latency Microseconds", "{rate},Trans/s,683"]  # fmt: skip


def test_lines_of_netperf_in_a_json_list_are_its_output():  # GoogleCloudPlatform/PerfKitBenchmarker, tests/data/netperf_results.json
    tests = [[line.format(rate=rate) for line in OMNI] for rate in ("1405.50", "3545.77")]
    trials = read("netperf", json.dumps(tests, indent=2))
    assert [of["transactions_per_s"] for of in figures(trials)] == [1405.5, 3545.77]
    assert doubts(trials) == []


def test_output_in_a_string_of_json_is_read():  # as Ansible and CI systems keep it
    kept = {"cmd": ["iperf", "-s"], "rc": 0, "stdout": AT_CLIENT + AT_SERVER}
    assert figures(read("iperf2", json.dumps(kept))) == figures(read("iperf2", AT_CLIENT + AT_SERVER))


# vTechnolust/PerfTests, of fio 2.1.11: the latency is the time since boot.
SINCE_BOOT = """fio-2.1.11
Starting 48 threads

job: (groupid=0, jobs=4): err= 0: pid=12902: Thu Sep  8 14:03:14 2016
  read : io=19412MB, bw=661966KB/s, iops=165491, runt= 30029msec
     lat (msec): min={lat}, max={lat}, avg={lat}, stdev=8719.64
  cpu          : usr=7.83%, sys=20.67%, ctx=7582, majf=0, minf=4100
     issued    : total=r=4969542/w=0/d=0, short=r=0/w=0/d=0
"""


@pytest.mark.parametrize(("lat", "is_possible"), [("756537530.85", False), ("25.13", True)])
def test_a_latency_longer_than_its_job_is_no_figure(lat, is_possible):
    trials = read("fio", SINCE_BOOT.format(lat=lat))
    (found,) = figures(trials)
    assert (round(found["iops.read"]), "lat_mean_ns.read" in found) == (165491, is_possible)
    assert (DoubtKind.IMPOSSIBLE_FIGURE in doubts(trials)) is not is_possible


def iperf3_end(intervals, *, sender, **total):
    """A report of one end of a UDP test by iperf3 3.7, with rates of its intervals in Mbit/s."""
    rows = [
        {"start": n, "end": n + 1, "seconds": 1, "bytes": rate * 125_000, "bits_per_second": rate * 1e6, "sender": sender}
        for n, rate in enumerate(intervals)
    ]
    test = {"protocol": "UDP", "num_streams": 1, "blksize": 1448, "duration": len(rows), "reverse": 0}
    start = {"version": "iperf 3.7", "cookie": "3fpgxj2offoix6emplsvgzdry3bk6rsieb3k", "test_start": test}
    start |= (
        {"connecting_to": {"host": "10.0.0.2", "port": 5201}} if sender else {"accepted_connection": {"host": "10.0.0.1", "port": 5001}}
    )
    whole = {"start": 0, "end": len(rows), "seconds": len(rows), "jitter_ms": 0.47, "sender": sender} | total
    streams = [{"streams": [row], "sum": row} for row in rows]
    return {"start": start, "intervals": streams, "end": {"streams": [{"udp": whole}], "sum": whole}}


def test_the_receiver_of_udp_knows_better_what_arrived_than_the_loss_of_the_sender():
    """The network's queue was full at the end: 86 of 1727 datagrams are in no loss.

    nguyenvantin971996/SDNLoadBalancer, sender_larac.json and receiver_larac.json.
    """
    sender = iperf3_end([10, 10], sender=True, bytes=1727 * 1448, bits_per_second=10e6, lost_packets=1209, packets=1727, lost_percent=70.0)
    receiver = iperf3_end([3, 2], sender=False, bytes=0, bits_per_second=0, lost_packets=1209, packets=1641, lost_percent=73.7)
    (alone,) = figures(read("iperf3", json.dumps(sender)))
    assert alone["goodput_bps"] == pytest.approx(3e6, rel=0.01)
    trials = read("iperf3", f"{json.dumps(sender)}\n{json.dumps(receiver)}")
    (found,) = figures(trials)
    assert found["goodput_bps"] == pytest.approx(432 * 1448 * 8 / 2, rel=0.01)
    assert found["loss_ratio"] == pytest.approx(1209 / 1641)
    assert doubts(trials) == [DoubtKind.TOOL_INCOMPLETE]


WRK = """    Running 30s test @ http://127.0.0.1:80/index.html
      2 threads and 100 connections
        Latency     6.46ms    1.93ms  12.34ms   67.66%
      60017 requests in 30.01s, 19.81MB read
    Requests/sec:   {rate}
    Transfer/sec:    676.14KB
"""


def test_every_test_of_wrk_in_a_page_is_read_at_any_indent():  # giltene/wrk2's README, as NaiJii/LINFO2241 has it
    page = f"  Output:\n\n{WRK.format(rate=2000.15)}\nExample 1:\n\n{WRK.format(rate=2000.28)}"
    assert [of["transactions_per_s"] for of in figures(read("wrk", page))] == [2000.15, 2000.28]

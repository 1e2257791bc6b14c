"""Kinds of public files that were read wrongly: for each the lines that matter, rewritten, with the figures worked out by hand.

Each comment names the public repository where the form was found.
"""

from __future__ import annotations

import json

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions
from dutlab.interop.importers import WrongKind, read_data

PROMPT = "user@node:~$ for i in 1 2; do netperf -H 10.0.0.2 -t TCP_RR; done"
RR = """MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET : demo : first burst 0
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate
bytes  Bytes  bytes    bytes   secs.    per sec

16384  87380  1        1       60.00    {rate}
16384  87380
"""


def read(kind, text):
    return read_data(kind, "box.txt", text.encode(), ImportOptions())


def figures(kind, text):
    """Figures of each trial at its first place."""
    return [dict(next(iter(trial.measured.figures.values()))) for trial in read(kind, text)]


def settings(kind, text):
    return [trial.cell.setting.said for trial in read(kind, text)]


def doubts(kind, text):
    return {doubt.kind for trial in read(kind, text) for doubt in trial.measured.doubts}


def test_a_headline_of_netperf_may_follow_a_prompt_in_its_line():  # handong32/eelinux
    text = PROMPT + RR.format(rate="58764.13") + RR.format(rate="58539.17")
    assert [of["transactions_per_s"] for of in figures("netperf", text)] == [58764.13, 58539.17]
    assert doubts("netperf", text) == set()


def test_netperfs_in_the_background_print_their_headlines_first():  # dtaht/deBloat
    head, _, body = RR.format(rate="58764.13").partition("\n")
    again = "\n".join(RR.format(rate="58539.17").rstrip("\n").split("\n")[-2:])
    text = f"{head}\n[2] 8362\nnode# {head}\n{body}{again}\n"
    assert [of["transactions_per_s"] for of in figures("netperf", text)] == [58764.13, 58539.17]
    assert doubts("netperf", text) == set()


def test_a_headline_of_netperf_may_be_broken_and_indented_as_in_mail():
    text = """> > >  UDP UNIDIRECTIONAL SEND TEST from 0.0.0.0 (0.0.0.0)
> > >   port 15895 AF_INET to 127.0.0.1 (127.0.0.1) port 15895 AF_INET
> > >  Socket  Message  Elapsed      Messages
> > >  Size    Size     Time         Okay Errors   Throughput
> > >  bytes   bytes    secs            #      #   10^9bits/sec
> > >
> > >    4608    1024   60.00     50024301      0       6.82
> > >    2560           60.00     46133211              6.29
"""
    (trial,) = read("netperf", text)
    assert trial.measured.figures["a"] == {"sent_bps": 6.82e9, "goodput_bps": 6.29e9, "loss_ratio": (50024301 - 46133211) / 50024301}
    assert not trial.assumed


# The form of iperf's own documentation, and of nokia/moler.
IPERF2_SERVER = """------------------------------------------------------------
Server listening on UDP port 5001
Receiving 1470 byte datagrams
------------------------------------------------------------
[904] local 10.1.1.1 port 5001 connected with 10.6.2.5 port 32781
[ ID]   Interval         Transfer        Bandwidth         Jitter        Lost/Total Datagrams
[904]   0.0- 1.0 sec   1.17 MBytes   9.84 Mbits/sec   3.830 ms   0/ 837   (0%)
[904]   1.0- 2.0 sec   1.18 MBytes   9.94 Mbits/sec   1.846 ms   5/ 850   (0.59%)
[904]   0.0- 2.0 sec   2.35 MBytes   9.86 Mbits/sec   2.618 ms   5/ 1687  (0.30%)
"""


def test_blanks_before_the_percentage_of_iperf_2_do_not_hide_a_receiver():
    assert figures("iperf2", IPERF2_SERVER) == [{"goodput_bps": 9.86e6, "loss_ratio": 5 / 1687, "jitter_ns": 2.618e6}]
    assert doubts("iperf2", IPERF2_SERVER) == set()


def test_lines_of_iperf_2_in_a_log_may_begin_with_a_time():
    log = "\n".join(f"2024-07-18T03:01:{n:02}.125Z {line}" for n, line in enumerate(IPERF2_SERVER.split("\n")))
    assert figures("iperf2", log) == figures("iperf2", IPERF2_SERVER)


def test_a_wrong_sum_of_an_iperf_2_server_does_not_count():  # nokia/moler: the sum has the first seconds twice
    lines = "".join(
        f"[  {n}]  0.0- 1.0 sec   122 KBytes  1000 Kbits/sec   1.556 ms    0/   85 (0%)\n"
        f"[  {n}]  0.0- 5.0 sec   612 KBytes  1000 Kbits/sec   {jitter} ms    0/  426 (0%)\n"
        for n, jitter in ((3, 0.821), (4, 1.273), (6, 1.332))
    )
    heads = "".join(f"[  {n}] local 10.0.0.2 port 5016 connected with 10.0.0.1 port 5191{n}\n" for n in (3, 6, 4))
    text = f"Server listening on UDP port 5016\n{heads}{lines}[SUM]  0.0- 5.0 sec  2199 KBytes  3596 Kbits/sec   1.556 ms    0/ 1532 (0%)\n"
    assert figures("iperf2", text) == [{"goodput_bps": 3e6, "loss_ratio": 0.0, "jitter_ns": 1.332e6}]


def test_a_server_of_iperf_2_knows_what_arrived():  # nokia/moler
    text = (
        "Server listening on TCP port 5016\n[  4] local 10.0.0.2 port 5016 connected with 10.0.0.1 port 42520\n"
        "[  4]  0.0- 5.0 sec  2398848 KBytes  3926238 Kbits/sec\n"
    )
    (server,), (client,) = read("iperf2", text), read("iperf2", text.replace("Server listening on", "Client connecting to 10.0.0.1,"))
    assert not server.measured.notes
    assert client.measured.notes


SENT = "20240718030119,10.0.0.8,59608,10.1.0.1,5001,3,0.0-10.0,393577800,314824870"
REPORT = "20240718030119,10.1.0.1,5001,10.0.0.8,59608,3,0.0-9.8,392785470,320693067,0.114,539,267740,0.201,0"
CAME = "20240718030119,10.0.0.8,5001,10.1.0.1,51402,4,0.0-10.0,368989110,295186328,0.060,3822,254835,1.500,0"


def test_csv_of_iperf_2_keeps_its_two_directions_apart():  # UDP with -d, as at the client
    (trial,) = read("iperf2", f"{SENT}\n{REPORT}\n{CAME}")
    assert trial.measured.figures["a"]["goodput_bps"] == 320693067
    assert trial.measured.figures["a.back"] == {"goodput_bps": 295186328, "loss_ratio": 3822 / 254835, "jitter_ns": 60_000}
    assert trial.cell.setting.said["streams"] == 2
    assert trial.cell.setting.said["direction"] == "both"


def test_the_report_of_the_far_end_is_no_stream_and_times_may_have_a_fraction():
    (trial,) = read("iperf2", f"{SENT}\n{REPORT}".replace("030119,", "030119.125,"))
    assert trial.cell.setting.said["streams"] == 1
    assert trial.measured.figures["a"]["sent_bps"] == 314824870
    assert read("iperf2", REPORT)[0].cell.setting.said["direction"] == "forward"


FIO = """job: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=16
...
fio-2.2.10
Starting 8 processes

job: (groupid=0, jobs=8): err= 0: pid={pid}: Fri Apr  7 18:42:49 2017
  read : io=4096.0MB, bw={rate}KB/s, iops={iops}, runt=  {ms}msec
  cpu          : usr=3.00%, sys=7.00%, ctx=60641, majf=0, minf=200
     issued    : total=r=1048576/w=0/d=0, short=r=0/w=0/d=0

Run status group 0 (all jobs):
   READ: io=4096.0MB, aggrb={rate}KB/s, minb={rate}KB/s, maxb={rate}KB/s, mint={ms}msec, maxt={ms}msec

Disk stats (read/write):
  vda: ios=1048576/2, merge=0/5, ticks=291836/0, in_queue=291620, util=98.05%
"""
RUNS = [{"pid": 2613, "rate": 611058, "iops": 152764, "ms": 6864}, {"pid": 2642, "rate": 502252, "iops": 125562, "ms": 8351}]


@pytest.mark.parametrize("first_line", [0, 5])
def test_several_runs_of_fio_in_a_text_are_repeats_not_a_sum(first_line):  # dyu/vps-comparison
    text = "".join("\n".join(FIO.format(**run).split("\n")[first_line:]) for run in RUNS)
    assert [round(of["iops.read"]) for of in figures("fio", text)] == [152765, 125563]
    assert DoubtKind.PAGE_CACHE not in doubts("fio", text)
    first, second = settings("fio", text)
    assert first == second


def test_reports_of_one_run_of_fio_stay_one():  # --status-interval
    early, late = FIO.format(**RUNS[0]), "\n".join(FIO.format(**RUNS[0] | {"ms": 13728}).split("\n")[5:])
    assert [round(of["iops.read"]) for of in figures("fio", early + late)] == [76382]


def test_a_prompt_before_the_options_of_fio_does_not_hide_them():  # kmgowda/SBK
    (said,) = settings("fio", "user@host$ fio --name=job --rw=randread   " + FIO.format(**RUNS[0]))
    assert (said["rw"], said["bs"], said["iodepth"]) == ("randread", "4k", 16)


@pytest.mark.parametrize("prefix", ["20:22:{:02} DEBUG| [stdout] ", "2023-05-10T16:09:{:02}.12345Z "])
def test_fio_is_read_in_a_log_with_a_prefix_before_each_line(prefix):  # avocado-framework-tests/avocado-misc-tests, pull request 1675
    log = "\n".join(f"{prefix.format(n)}{line}" for n, line in enumerate(FIO.format(**RUNS[0]).split("\n")))
    assert figures("fio", log) == figures("fio", FIO.format(**RUNS[0]))


def test_the_headers_of_fio_s_servers_are_no_doubt():  # distributed-system-analysis/pbench
    way = {"iops": 5.0, "bw_bytes": 20480, "total_ios": 5, "runtime": 1000}
    document = json.dumps({"fio version": "fio-3.7", "client_stats": [{"jobname": "a", "hostname": "h", "groupid": 0, "read": way}]})
    assert doubts("fio", f"hostname=h, be=0, 64-bit, os=Linux, arch=x86-64, fio=fio-3.7, flags=1\n{document}") == set()


def test_a_rate_of_0_of_writes_that_fio_did_not_time_is_no_figure():  # axboe/fio, pull request 2110
    ways = {"read": {"iops": 6553.6, "bw_bytes": 107374182, "total_ios": 65536}, "write": {"iops": 0.0, "bw_bytes": 0, "total_ios": 65536}}
    (whole,) = figures("fio", json.dumps({"fio version": "fio-3.42", "jobs": [{"jobname": "a", "groupid": 0, **ways}]}))
    assert whole == {"iops.read": 6553.6, "bytes_per_s.read": 107374182}


def test_wrk2_has_the_percentiles_of_its_tail():  # GoogleCloudPlatform/PerfKitBenchmarker
    text = """Running 1m test @ http://10.0.0.1
  1 threads and 2 connections
    Latency    58.33ms   24.98ms 244.10ms   96.20%
 50.000%   53.31ms
 99.000%  223.23ms
 99.900%  244.22ms
 99.990%    1.50s
100.000%    0.90m
  600 requests in 1.00m, 112.39MB read
Requests/sec:     10.00
Transfer/sec:      1.87MB
"""
    (whole,) = figures("wrk", text)
    assert [whole.get(f"latency_{p}_ns") for p in ("p50", "p90", "p99", "p999", "p9999")] == [53.31e6, None, 223.23e6, 244.22e6, 1.5e9]


UDP = """Connecting to host 10.0.0.10, port 5201
[  5] local 10.0.0.2 port 42142 connected to 10.0.0.10 port 5201
[ ID] Interval           Transfer     Bitrate         Total Datagrams
[  5]   0.00-1.00   sec  11.9 MBytes  {rate} Mbits/sec  8632
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams
[  5]   0.00-1.00   sec  11.9 MBytes  {rate} Mbits/sec  0.000 ms  0/8632 (0%)  sender
[  5]   0.00-1.00   sec  {came}  receiver

iperf Done.
"""


def test_if_nothing_arrives_everything_is_lost():  # iperf3 3.12, with a firewall that drops the datagrams
    text = UDP.format(rate=100, came="0.00 Bytes  0.00 bits/sec  0.000 ms  0/0 (0%)")
    assert figures("iperf3", text) == [{"goodput_bps": 0.0, "sent_bps": 100e6, "loss_ratio": 1.0}]
    sent, none = (
        {"seconds": 2, "bytes": 1277952, "bits_per_second": 5111808, "packets": 39},
        {"bytes": 0, "bits_per_second": 0, "packets": 0},
    )
    counts = {"jitter_ms": 0, "lost_packets": 0, "lost_percent": 0}
    end = {"sum": {**sent, **counts}, "sum_sent": {**sent, **counts}, "sum_received": {**sent, **counts, **none}}
    start = {"version": "iperf 3.12", "test_start": {"protocol": "UDP", "num_streams": 1, "blksize": 32768, "duration": 2, "reverse": 0}}
    (whole,) = figures("iperf3", json.dumps({"start": start, "intervals": [], "end": end}))
    assert (whole["goodput_bps"], whole["loss_ratio"]) == (0.0, 1.0)
    assert "jitter_ns" not in whole
    start["version"] = "iperf 3.7"  # its only sum has what was sent, so the same report may mean that all arrived
    assert DoubtKind.TOOL_INCOMPLETE in doubts("iperf3", json.dumps({"start": start, "intervals": [], "end": {"sum": end["sum"]}}))


def test_a_client_that_receives_nothing_does_not_know_what_was_sent():  # esnet/iperf, issue 1264
    text = (
        "Connecting to host 10.0.0.10, port 6666\nReverse mode, remote host 10.0.0.10 is sending\n"
        "[  4] local 10.0.0.2 port 42142 connected to 10.0.0.10 port 6666\n"
        "[  4]   0.00-1.00   sec  0.00 Bytes  0.00 Mbits/sec  0.000 ms  0/0 (nan%)\n- - - - - - - - - - - - -\n"
        "[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams\n"
        "[  4]   0.00-1.00   sec  0.00 Bytes  0.00 Mbits/sec  0.000 ms  0/0 (nan%)\n[  4] Sent 0 datagrams\n\niperf Done.\n"
    )
    assert figures("iperf3", text) == [{"goodput_bps": 0.0}]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_text_is_read_in_the_encodings_of_powershell_and_spreadsheets(encoding):
    text = UDP.format(rate=100, came="11.8 MBytes  99.0 Mbits/sec  0.115 ms  86/8632 (1%)").replace("\n", "\r\n")
    data = ("\ufeff" if encoding == "utf-16-be" else "").encode(encoding) + text.encode(encoding)
    (trial,) = read_data("iperf3", "box.txt", data, ImportOptions())
    assert trial.measured.figures["a"]["goodput_bps"] == 99e6


@pytest.mark.parametrize(
    "table",
    [
        "\ufeffmode;workload;goodput_gbps;latency_p99_us\r\nnat;iperf3;9,41;120,5\r\n",
        "mode\tworkload\tgoodput_gbps\tlatency_p99_us\nnat\tiperf3\t9.41\t120.5\n",
        'Mode, Workload, Goodput_Gbps, Latency_P99_us\nnat, iperf3, "9.41", 120.5\n',
    ],
)
def test_a_table_of_a_spreadsheet_may_be_separated_by_semicolons_or_tabs(table):
    assert figures("figures", table) == [{"goodput_bps": 9.41e9, "latency_p99_ns": 120_500}]


def test_output_that_python_printed_as_bytes_is_read():  # freebsd-net/netperf
    text = UDP.format(rate=100, came="11.8 MBytes  99.0 Mbits/sec  0.115 ms  86/8632 (1%)")
    assert figures("iperf3", f"0 {text.encode()!r}\n") == figures("iperf3", text)
    with pytest.raises(InputError):
        read("iperf3", r"0 b'iperf Done.\xZZ'")


def test_further_columns_of_a_file_for_ministat_are_named():  # ocochard/netbenches
    (trial,) = read("ministat", "# median minimum maximum\n89514 89211 89711\n")
    assert trial.measured.figures == {"a": {"value": 89514}}
    assert [(part.what, part.count) for part in trial.left_out] == [("columns", 2)]


def test_messages_of_debug_are_not_reports():  # esnet/iperf, issue 1984
    text = 'iperf 3.20\nDarwin 25.1.0\nsend_parameters:\n{\n\t"udp":\ttrue,\n\t"len":\t1448\n}\n' + UDP.format(
        rate=100, came="11.8 MBytes  99.0 Mbits/sec  0.115 ms  86/8632 (1%)"
    )
    assert [of["goodput_bps"] for of in figures("iperf3", text)] == [99e6]
    assert doubts("iperf3", text) == set()


def test_a_total_that_a_script_prints_again_is_no_further_test():  # perftool-incubator/bench-iperf
    text = UDP.format(rate=187, came="22.3 MBytes  186 Mbits/sec  0.008 ms  0/19480 (0%)")
    again = next(line for line in text.split("\n") if line.endswith("receiver"))
    assert len(figures("iperf3", f"{text}PASS: {again}\n{text}PASS: {again}\n")) == 2


def test_a_search_for_a_rate_keeps_its_rates_apart():  # perftool-incubator/bench-iperf
    rates = (150, 175, 187, 193, 187.2)
    text = "".join(UDP.format(rate=rate, came=f"22.3 MBytes  {rate} Mbits/sec  0.008 ms  0/19480 (0%)") for rate in rates)
    assert [said["rate_bps"] for said in settings("iperf3", text)] == [150e6, 175e6, 187e6, 193e6, 187e6]


def test_a_server_does_not_know_the_processor_of_its_client():  # nokia/moler
    text = (
        "Accepted connection from 10.0.0.2, port 37974\n[  5] local 10.0.0.1 port 5901 connected to 10.0.0.2 port 37988\n"
        "[ ID] Interval           Transfer     Bitrate\n[  5]   0.00-1.00   sec  2.26 GBytes  19.4 Gbits/sec\n- - - - - -\n"
        "[ ID] Interval           Transfer     Bitrate\n[  5] (sender statistics not available)\n"
        "[  5]   0.00-1.04   sec  2.26 GBytes  18.7 Gbits/sec                  receiver\n"
        "CPU Utilization: local/receiver 59.8% (3.9%u/55.9%s), remote/sender 0.0% (0.0%u/0.0%s)\n"
    )
    assert figures("iperf3", text) == [{"goodput_bps": 18.7e9, "receiver_cpu_percent": 59.8}]


def test_lines_of_iperf3_without_an_end_are_not_of_iperf_2():  # perftool-incubator/bench-iperf
    text = "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n" + "".join(
        f"[  5]   {n}.00-{n + 1}.00   sec  1.16 GBytes  10.0 Gbits/sec    0   3.01 MBytes\n" for n in range(3)
    )
    with pytest.raises(InputError) as refused:
        read("iperf3", text)
    assert not isinstance(refused.value, WrongKind)


def test_digits_without_end_are_not_a_rate():  # tests/faults/mutated_imports.py
    port = {"tx_pps": 9 * 10**399, "rx_pps": 1.0, "tx_util": 1.0, "rx_util": 1.0}
    given_vars = {"warmup_mult": "1kpps", "warmup_duration": 0, "rampup_target": 100, "rampup_duration": 1, "hold_duration": 0}
    document = {"vars": {**given_vars, "profile_file": "imix.py"}, "stats": {"1000.5": {"0": port, "1": port}}}
    with pytest.raises(InputError, match="is not a rate"):
        read("loadtest", json.dumps(document))

"""flent: rates and times of what was measured, in the units of its tools; sums that flent made are not added again."""

from __future__ import annotations

import gzip
import json

import pytest

from dutlab.choices import IMPORTS
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions, Omission
from import_files import FLENT

PACKED = FLENT.read_bytes()


def read(data, name="device.json"):
    return IMPORTS["flent"].importer(name, data, ImportOptions())


def test_flents_rates_and_round_trips_are_of_what_was_read_and_not_interpolated():
    (trial,) = read(PACKED, "wifi.flent.gz")
    said = json.loads(gzip.decompress(PACKED))
    pings = [p["val"] for p in said["raw_values"]["Ping (ms) ICMP"]]
    rates = [p["val"] for p in said["raw_values"]["TCP upload"]]
    figures = trial.measured.figures["a"]
    assert trial.cell.mode == "wifi"
    assert figures["goodput_bps"] == said["metadata"]["SERIES_META"]["TCP upload"]["MEAN_VALUE"] * 1e6
    row = trial.measured.tables["series"][-1]
    assert (row["min"], row["max"], row["values"]) == (min(rates), max(rates), len(rates))
    assert figures["rtt_max_ns"] == pytest.approx(max(pings) * 1e6)
    assert figures["rtt_p50_ns"] == pytest.approx(sorted(pings)[7] * 1e6)
    assert [row["series"] for row in trial.measured.tables["series"]] == ["Ping (ms) ICMP", "Ping (ms) avg", "TCP upload"]
    assert trial.started.isoformat() == said["metadata"]["TIME"].replace("Z", "+00:00")


def test_sums_that_flent_made_are_not_added_to_their_parts():
    series = {"TCP upload A": [10.0], "TCP upload B": [20.0, None], "TCP upload sum": [30.0], "TCP totals": [34.0], "TCP download": [4.0]}
    (trial,) = read(json.dumps({"x_values": [0, 1], "results": series, "metadata": {"NAME": "rrul"}}).encode())
    assert trial.measured.figures == {place: {"goodput_bps": rate} for place, rate in (("a+a.back", 34e6), ("a", 30e6), ("a.back", 4e6))}


def flent(series, *, units=True):
    """A file with these series: name → (unit or "", raw values as (t, seconds or None, value), values in flent's unit, more of SERIES_META)."""
    document = {
        "x_values": [0, 1],
        "results": {name: shown for name, (_, _, shown, _) in series.items()},
        "raw_values": {
            name: [{"t": t, "val": value} | ({"dur": dur} if dur else {}) for t, dur, value in raw]
            for name, (_, raw, _, _) in series.items()
        },
        "metadata": {
            "NAME": "x",
            "SERIES_META": {name: ({"UNITS": unit} if unit else {}) | more for name, (unit, _, _, more) in series.items()},
        },
    }
    return json.dumps(document if units else document | {"metadata": {"NAME": "x"}}).encode()


STEADY = [(t, 1.0, 10.0) for t in range(1, 11)]


@pytest.mark.parametrize(
    ("unit", "raw", "shown", "more", "expected"),
    [
        # What each sample lasted counts: 20 Mbit in 1 s and 10 Mbit in 9 s.
        ("Mbits/s", [(1, 1.0, 20.0), (10, 9.0, 10 / 9)], [20.0, 1.1], {}, {"goodput_bps": 3e6}),
        ("Mbits/s", [(1, 1.0, 20.0), (10, 9.0, 10 / 9)], [20.0, 1.1], {"MEAN_VALUE": 2.9}, {"goodput_bps": 2.9e6}),
        ("Mbits/s", STEADY, [10.0], {"MEAN_VALUE": 10e6}, {"goodput_bps": 10e6}),  # the mean in the unit of the tool
        ("Mbits/s", [(t, None, 10e6) for t in range(9)], [10.0], {}, {"goodput_bps": 10e6}),  # raw values in it
        ("Kbits/s", STEADY, [10.0], {}, {"goodput_bps": 10e3}),
        # Seconds, and one series of transactions whose last sample netperf made when it had lost the stream.
        ("ms", [(1, None, 0.001), (2, None, 0.003)], [1.0, 3.0], {}, {"latency_min_ns": 1e6, "latency_mean_ns": 2e6, "latency_max_ns": 3e6}),
        ("ms", [(1, 0.2, 100.0), (2, 0.2, 50.0), (99, 99.0, 0.1)], [10.0, 20.0], {}, {"latency_max_ns": 20e6, "latency_mean_ns": 1e9 / 75}),
        ("ms", [(1, 0.2, 100.0), (2, 0.2, 0.0), (3, 0.2, 100.0)], [10.0, 10.0], {}, {"latency_min_ns": 10e6, "latency_max_ns": 10e6}),
        # Raw values in a unit that nobody knows: flent's own.
        ("ms", [(1, None, 77.0), (2, None, 78.0)], [1.0, 3.0], {}, {"latency_min_ns": 1e6, "latency_max_ns": 3e6}),
    ],
)  # fmt: skip
def test_a_series_of_flent_in_the_unit_of_its_tool(unit, raw, shown, more, expected):
    (trial,) = read(flent({"HTTP upload": (unit, raw, shown, more)}))
    figures = trial.measured.figures["a"]
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_only_series_that_were_measured_count():
    others = {
        "TCP upload fairness": ("Mbits/s", [], [0.9], {}),
        "Both": ("Mbits/s", [], [20.0], {"RUNNER": "SumRunner"}),
        "VoIP::bitrate": ("Kbits/s", [], [73.0], {"RUNNER": "NullRunner"}),
        "cpu_stats_host::load": ("", [], [0.4], {}),
        "Ping (ms) UDP::owd_up": ("ms", [], [4.0], {"RUNNER": "NullRunner"}),
    }
    streams = {"TCP upload::1": ("Mbits/s", STEADY, [10.0], {}), "TCP upload::2": ("Mbits/s", STEADY, [10.0], {})}
    (trial,) = read(flent(streams | others))
    assert trial.measured.figures["a"] == {"goodput_bps": 20e6}
    with pytest.raises(InputError):
        read(flent(others))
    # Before 2014 no series had a unit: names tell.
    (trial,) = read(flent({"TCP upload": ("", [], [10.0], {}), "Ping (ms)": ("", [], [5.0], {}), "load": ("", [], [3.0], {})}, units=False))
    assert (trial.measured.figures["a"]["goodput_bps"], trial.measured.figures["a"]["rtt_mean_ns"]) == (10e6, 5e6)


def test_streams_that_did_not_run_at_one_time_are_no_sum_of_their_means():
    later = [(t + 10, dur, value) for t, dur, value in STEADY]
    (trial,) = read(flent({"TCP upload": ("Mbits/s", STEADY, [10.0], {}), "TCP download": ("Mbits/s", later, [10.0], {})}))
    assert trial.measured.figures == {place: {"goodput_bps": 10e6} for place in ("a", "a.back", "a+a.back")}
    assert len(trial.measured.notes) == 1


def test_a_stream_of_flent_that_stood_still_is_doubted_and_its_beginning_is_not():
    still = [(t, 1.0, 0.0 if t in (1, 5, 6) else 10.0) for t in range(1, 11)]
    (trial,) = read(
        flent({"TCP upload": ("Mbits/s", still, [value for _, _, value in still], {}), "TCP download": ("Mbits/s", STEADY, [10.0], {})}),
    )
    assert [(doubt.kind, "2 of 9" in doubt.detail) for doubt in trial.measured.doubts] == [(DoubtKind.STALLED, True)]


def test_what_was_asked_of_flent_is_in_its_cell_and_series_that_count_nowhere_are_named():
    said = json.loads(gzip.decompress(PACKED))
    said["metadata"] |= {"IP_VERSION": 6, "TEST_PARAMETERS": {"cc": "bbr", "list": [1]}, "HOSTS": ["192.0.2.2"], "LOCAL_HOST": "client"}
    (trial,) = read(json.dumps(said).encode())
    assert {name: trial.cell.params.get(name) for name in ("ip", "cc", "list")} == {"ip": "6", "cc": "bbr", "list": None}
    assert trial.apart == {"client": "client", "server": "192.0.2.2"}
    assert [(out.why, out.count) for out in trial.left_out] == [(Omission.COMPUTED, 1)]


def test_what_a_client_of_udp_sent_is_no_goodput():
    (trial,) = read(flent({"UDP upload": ("Mbits/s", STEADY, [10.0], {"MEAN_VALUE": None})}))
    assert trial.measured.figures["a"] == {"sent_bps": 10e6}
    assert [d.kind for d in trial.measured.doubts] == [DoubtKind.TOOL_INCOMPLETE]
    (trial,) = read(flent({"UDP upload": ("Mbits/s", STEADY, [10.0], {"MEAN_VALUE": 1.0})}))
    assert trial.measured.figures["a"] == {"goodput_bps": 1e6}


def test_a_packed_file_that_was_cut_keeps_what_could_be_unpacked():
    said = json.loads(gzip.decompress(PACKED))
    text = json.dumps({"metadata": said["metadata"], "results": said["results"], "note": ["x" * 5 + str(n) for n in range(3000)]}).encode()
    packed = gzip.compress(text)
    (trial,) = read(packed[: len(packed) - 200])
    assert trial.measured.figures["a"]["goodput_bps"] > 0
    assert [d.kind for d in trial.measured.doubts] == [DoubtKind.TOOL_INCOMPLETE]
    with pytest.raises(InputError, match="unpacks to more"):
        read(gzip.compress(bytes(2**26 + 1)))


def test_the_loss_of_a_call_is_from_its_packets():  # tohojo/flent, unittests/test_data/test-voip-1up.flent.gz
    packets = [{"seq": seq, "size": 92, "t": 1436779361.5 + seq / 100, "val": 24.8} for seq in (1, 2, 2, 4, 5, 6, 8, 9, 10)]
    document = json.loads(flent({"TCP upload": ("Mbits/s", [(1, 1, 87.9)], [87.9], {})}))
    document["results"] |= {"VoIP::loss": [0.0, 2.0], "VoIP::delay": [24.8, 24.9], "VoIP::jitter": [0.1, 0.1]}
    document["raw_values"]["VoIP"] = packets
    document["metadata"]["SERIES_META"]["VoIP"] = {"UNITS": "Kbps"}
    (trial,) = read(json.dumps(document).encode())
    assert trial.measured.figures["a"] == {"goodput_bps": 87.9e6, "voip/loss_ratio": pytest.approx(2 / 10)}
    assert [(of.why, of.count) for of in trial.left_out] == [(Omission.NO_MEASURE, 2)]

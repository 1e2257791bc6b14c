"""Files of other tools for the tests of imports: those that real programs left, and those in a published form of programs that are not here."""

from __future__ import annotations

import json
from pathlib import Path

DATA = Path(__file__).parent / "data"
FIO = DATA / "fio" / "randrw.json"
FIO_CACHED = DATA / "fio" / "cached-read.json"
FLENT = DATA / "flent" / "ping-and-tcp.flent.gz"
CASES = DATA / "cases"
"""Public cases, a folder each with a README."""


def ndr(**changed):
    """As NdrBenchResults.to_json of TRex v3.08 (ndr_bench.py) makes it."""
    results = {
        "total_iterations": 6, "title": "imix", "Elapsed Time": 151.2, "queue_full_percentage": 0.0, "drop_rate_percentage": 0.05,
        "valid_latency": True, "rate_tx_bps": 3.2e9, "rate_rx_bps": 3.2e9, "tx_util": 42.0, "cpu_util": 31.5, "tx_pps": 6.25e6,
        "rx_pps": 6.246875e6, "bw_per_core": 11.0, "rate_p": 43.75, "total_tx_L1": 4.2e9, "total_rx_L1": 4.1979e9, "tx_bps": 3.2e9,
        "rx_bps": 3.1984e9, "max_rate_bps": 7.3e9, "iteration": 6, "rate_difference": 0, "ndr_points": [3.2e9],
        "latency": {"0": {"average": 21.5, "jitter": 3, "total_max": 180, "total_min": 12, "histogram": {"10": 900, "20": 100}}},
    }  # fmt: skip
    config = {
        "iteration_duration": 40.0, "q_full_resolution": 2.0, "first_run_duration": 40.0, "pdr": 0.1, "pdr_error": 1.0, "ndr_results": 1,
        "max_iterations": 10, "ports": [0, 1], "cores": 2, "total_cores": 1, "verbose": False, "bi_dir": False, "plugin_file": None,
        "tunables": {}, "opt_binary_search": False, "title": "imix", "opt_binary_search_percentage": 5,
    }  # fmt: skip
    return json.dumps({"results": results | changed, "config": config}).encode()


def conductor(code=0):
    """As Conductor's JSONReporter writes it: one trial of one worker, whose second step of the run ends with `code`."""

    def phase(second, *results):
        rows = [{"timestamp": f"2025-06-05T00:38:{second}.2", "code": c, "message": m} for c, m in (*results, (65535, "phases complete"))]
        worker = {"start_time": f"2025-06-05T00:38:{second}.1", "end_time": f"2025-06-05T00:38:{second}.3", "results": rows}
        return {"start_time": worker["start_time"], "end_time": worker["end_time"], "workers": {"worker_0": worker}}

    phases = {
        "startup": phase("31", (0, "started\n")),
        "run": phase("33", (0, "3 packets transmitted\n"), (code, "no route\nping: failed\n" if code else "")),
        "collect": phase("34", (0, "collected\n")),
        "reset": phase("35", (0, "")),
    }
    trial = {"trial_number": 1, "start_time": "2025-06-05T00:38:31", "end_time": "2025-06-05T00:38:35.5", "phases": phases}
    metadata = {"start_time": trial["start_time"], "end_time": trial["end_time"], "total_trials": 1, "total_workers": 1}
    return json.dumps({"metadata": metadata, "trials": [trial]}, indent=2).encode()


def trex_stl(**total):
    """As `get_stats()` of TRex v3.08's STL client gives it (trex_port_stats.py, trex_stl_stats.py): one port sends, the other receives."""
    sends = {
        "opackets": 1_000_000, "ipackets": 0, "obytes": 64_000_000, "ibytes": 0, "oerrors": 0, "ierrors": 0, "tx_bps": 5.12e8, "tx_pps": 1e6,
        "tx_bps_L1": 6.72e8, "tx_util": 6.72, "rx_bps": 0.0, "rx_pps": 0.0, "rx_bps_L1": 0.0, "rx_util": 0.0,
    }  # fmt: skip
    gets = sends | {
        "opackets": 0, "ipackets": 999_000, "obytes": 0, "ibytes": 63_936_000, "tx_bps": 0.0, "tx_pps": 0.0, "tx_bps_L1": 0.0, "tx_util": 0.0,
        "rx_bps": 5.1e8, "rx_pps": 0.999e6, "rx_bps_L1": 6.7e8, "rx_util": 6.7,
    }  # fmt: skip
    latency = {
        "average": 21.5,
        "jitter": 3,
        "total_max": 180,
        "total_min": 12,
        "last_max": 40,
        "histogram": {"10": 900, "20": 100},
        "hdrh": "HISTFAAAA",
    }
    errors = {"dropped": 2, "out_of_order": 1, "dup": 0, "seq_too_high": 2, "seq_too_low": 0}
    ports = {"0": 0, "1": 0, "total": 0}
    flow = dict.fromkeys(("rx_bytes", "tx_bytes", "rx_bps", "tx_bps", "rx_pps", "tx_pps", "rx_bps_l1", "tx_bps_l1"), ports)
    return json.dumps({
        "0": sends, "1": gets, "total": {name: sends[name] + gets[name] for name in sends} | total,
        "global": {"active_flows": 0.0, "bw_per_core": 9.1, "cpu_util": 31.5, "cpu_util_raw": 31.0, "queue_full": 0, "rx_drop_bps": 1.0e6, "tx_pps": 1e6},
        "flow_stats": {"5": flow | {"tx_pkts": ports | {"0": 1000, "total": 1000}, "rx_pkts": ports | {"1": 998, "total": 998}}, "global": {"rx_err": {"0": 0}, "tx_err": {"0": 0}}},
        "latency": {"5": {"err_cntrs": errors, "latency": latency}, "global": {"old_flow": 0, "bad_hdr": 0}},
    }).encode()  # fmt: skip


def trex_astf(**client):
    """As `get_stats()` of TRex v3.08's ASTF client gives it (astf/stats/traffic.py, latency.py; src/stt_cp.cpp names the counters)."""
    said = json.loads(trex_stl())
    del said["flow_stats"]
    side = {"m_active_flows": 6662, "m_est_flows": 6657, "m_avg_size": 1834.3, "m_tx_bw_l7_r": 2.8e6, "m_rx_bw_l7_r": 3.69e8, "m_tx_pps_r": 12672.2,
            "m_rx_pps_r": 12671.8, "m_traffic_duration": 30.5, "tcps_connattempt": 333_120, "tcps_connects": 333_115, "tcps_closed": 326_458,
            "tcps_sndbyte": 82_945_635, "tcps_rcvbyte": 10_890_112_648}  # fmt: skip
    server = side | {"m_tx_bw_l7_r": 3.69e8, "m_rx_bw_l7_r": 2.8e6, "tcps_sndrexmitpack": 7}
    hist = {
        "cnt": 900,
        "high_cnt": 900,
        "min_usec": 10,
        "max_usec": 310,
        "s_avg": 35.5,
        "s_max": 120,
        "histogram": [{"key": 10, "val": 900}],
    }
    latency = {"0": {"hist": hist, "stats": {"m_tx_pkt_ok": 900, "m_pkt_ok": 900, "m_jitter": 2}}}
    said["global"] |= {"tx_cps": 11_104.0, "tx_expected_cps": 11_110.0}
    return json.dumps(said | {"traffic": {"client": side | client, "server": server}, "latency": latency}).encode()


def _delays(mean):
    return {"avg_delay_usec": mean, "min_delay_usec": mean - 10, "max_delay_usec": mean + 90}


def nfvbench(search=True, **ndr):
    """As `nfvbench --json` writes it (traffic_client.py, chain_runner.py, nfvbench.py): a search, or a fixed rate, with frames of 64 bytes."""
    found = {"tx_pkts": 1000, "rx_pkts": 999, "drop_percentage": 0.1, "drop_pct": 1, **_delays(30)}
    stats = {
        "0": found,
        "1": found,
        "overall": found,
        "total_tx_rate": 2_000_000,
        "offered_tx_rate_bps": 1.3e9,
        "theoretical_tx_rate_pps": 2.9e7,
    }
    bound = {"initial_rate_type": "rate_percent", "rate_pps": 2_000_000, "rate_percent": 13.4, "rate_bps": 1_344_000_000}
    bound |= {"load_percent_per_direction": 6.7, "stats": stats, "timestamp_sec": 1.7e9, "time_taken_sec": 61.2}
    port = {
        "tx": {"total_pkts": 1000, "pkt_rate": 100},
        "rx": {"total_pkts": 990, "pkt_rate": 99, "dropped_pkts": 10, **_delays(40)},
        "drop_rate_percent": 1.0,
    }
    rates = {"orig": {"rate_pps": 10_000, "rate_bps": 6.7e6}, "tx": {"rate_pps": 10_000}, "rx": {"rate_pps": 9_900}}
    fixed = {
        "stats": {"overall": port, "0": port, "1": port},
        "run_config": {"direction-total": rates, "direction-forward": rates, "direction-reverse": rates},
    }
    of_size = (
        {
            "ndr": bound | ndr,
            "pdr": bound | {"rate_pps": 2_500_000, "stats": stats | {"total_tx_rate": 2_500_000}},
            "iteration_stats": {"ndr_pdr": []},
        }
        if search
        else fixed
    )
    chain = {"flow_count": 10_000, "service_chain_count": 1, "bidirectional": True, "result": {"64": of_size}}
    config = {
        "duration_sec": 60,
        "flow_count": 10_000,
        "service_chain_count": 1,
        "rate": "ndr_pdr",
        "measurement": {"NDR": 0.001, "PDR": 0.1},
    }
    network = {"service_chain": {"PVP": {"result": chain}}, "versions": {"Tool": "TRex"}}
    said = {"date": "2023-11-30 10:38:14", "nfvbench_version": "5.0.0", "config": config, "benchmarks": {"network": network}}
    return json.dumps(said, indent=4, sort_keys=True).encode()


def _bound(lower, **more):
    return {"lower": {"rate": {"value": lower, "unit": "pps"}, "bandwidth": {"value": lower * 672, "unit": "bps"}}} | more


def csit(result=None, **changed):
    """As CSIT's ExportJson writes a test of its UTI model 1.5.1 (resources/model_schema/test_case.schema.yaml)."""
    load = {"avg": 12, "hdrh": "HISTFAAAA", "max": 90, "min": 5, "unit": "us"}
    loads = dict.fromkeys(("pdr_0", "pdr_10", "pdr_50", "pdr_90"), load)
    ndrpdr = {"type": "ndrpdr", "ndr": _bound(9.5e6), "pdr": _bound(11e6), "latency_forward": loads, "latency_reverse": loads}
    said = {
        "version": "1.5.1", "test_id": "tests.vpp.perf.ip4.64b-1c-ethip4-ip4base-ndrpdr", "test_name_long": "10ge2p1x710-64b-2t1c-ethip4-ip4base-ndrpdr",
        "test_name_short": "ethip4-ip4base", "test_type": "ndrpdr", "passed": True, "message": "", "duration": 61.5, "start_time": "2026-01-02T03:04:05.6Z",
        "end_time": "2026-01-02T03:05:07.1Z", "dut_type": "vpp", "dut_version": "26.02", "tg_type": "trex", "tg_version": "3.08", "hosts": ["10.0.0.2", "10.0.0.1"],
        "tags": ["64B", "1C"], "telemetry": [], "test_documentation": "", "result": result or ndrpdr,
    }  # fmt: skip
    return json.dumps(said | changed).encode()


def csit_draft(kind, results, *, below_test=False):
    """As the drafts of UTI (0.1.0) in CSIT's docs/TNM/examples/output_uti have it: flat, or below `test`."""
    info = {"test_id": f"tests.vpp.perf.ip4.64b-1c-ethip4-ip4base-{kind.lower()}", "test_type": kind}
    ran = {"start_time": "20260102 03:04:05.600", "status": "PASS"}
    about = {"testbed": "10.0.0.9", "sut_version": "26.02"}
    if not below_test:
        return json.dumps({"version": "0.1.0", **about, **info, **ran, "results": results, "log": []}).encode()
    test = {key.replace("_", "-"): value for key, value in info.items()} | {"execution": ran, "results": results}
    return json.dumps({"version": "0.1.0", "metadata": {"sut-version": "26.02"}, "log": [], "test": test}).encode()

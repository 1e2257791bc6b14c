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

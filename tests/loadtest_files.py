"""Files of trex-loadtest, made up for tests."""

from __future__ import annotations

from dutlab.interop.loadtest_json import Channel, LoadtestFile, LoadtestSample


def ramp_file(*rows, **said):
    """One sample a second of (sent, received) each way, in frames a second; utilisation is of 1 000 000 pps."""
    samples = []
    for n, (sent, received) in enumerate(rows):
        port = Channel(float(sent), float(received), sent / 1e4, received / 1e4)
        samples.append(LoadtestSample(f"{1000 + n}.5", (port, port)))
    given_vars = {
        "warmup_mult": "1kpps", "warmup_duration": 0.0, "rampup_target": 100.0, "rampup_duration": float(len(rows)), "hold_duration": 0.0,
        "profile_file": "imix.py", **said,
    }  # fmt: skip
    return LoadtestFile(samples=tuple(samples), **given_vars)

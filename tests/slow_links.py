"""A router that forwards 50 Mbit/s: TCP at its full speed then costs the machine next to nothing."""

from __future__ import annotations

import subprocess


def slow_down(dut: str, *ports: str) -> None:
    """Ports of the namespace `dut` send no faster from now on."""
    for port in ports:
        add = ["ip", "netns", "exec", dut, "tc", "qdisc", "add", "dev", port, "root"]
        subprocess.run([*add, "tbf", "rate", "50mbit", "burst", "64k", "latency", "20ms"], check=True)

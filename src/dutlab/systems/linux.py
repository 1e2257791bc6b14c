"""Linux, and VyOS, a Linux with a separate configuration system."""

from __future__ import annotations

from dataclasses import replace

from dutlab.systems.modes import (
    ARRAYS,
    AS_FOUND,
    BRIDGE,
    BRIDGE_FILTER_25,
    FAST_PATHS,
    FILTER_OWN,
    FIREWALL,
    GUEST_TUNNELS,
    IPSEC,
    TUNNELS,
    TWO_ROUTERS,
    USER_SPACE,
    XDP_FORWARD,
)
from dutlab.systems.posix import DOAS_OR_SUDO, SH, is_listening, listens
from dutlab.systems.system import PingWords, System

# iputils ping(8).
_PING = ("ping", "-n", "-c", "1", "-W", "0.5", "-M", "do", "-s")

LINUX = System(
    name="linux",
    title="Linux",
    kernel="Linux",
    shell=SH,
    ping=PingWords("Linux", _PING, _PING, version=("ping", "-V")),
    listens=listens,
    is_listening=is_listening,
    install="Debian: apt install {}",
    modes=(*FIREWALL, *TUNNELS, *USER_SPACE, BRIDGE, BRIDGE_FILTER_25, XDP_FORWARD),
    ports=("sh", "-c", r"ip -o link | sed -n 's/^[0-9]*: \([^:@]*\).*/\1/p'"),
    pin=("taskset", "-c"),
    as_root=DOAS_OR_SUDO,
    counters_path="dutlab.systems.linux_proc:LINUX_COUNTERS",
    cores_path="dutlab.systems.linux_proc:LINUX_CPU",
    kernel_tables=True,
    runs_engine=True,
)
VYOS = replace(LINUX, name="vyos", title="VyOS", untried=True, modes=(*FIREWALL, *IPSEC), kernel_tables=False, runs_engine=False)
MDRAID = replace(LINUX, name="mdraid", title="Linux with arrays", modes=(AS_FOUND, *ARRAYS), kernel_tables=False, runs_engine=False)
"""Linux host with drives, in a testbed without a path through a DUT; its modes are arrays of its drives."""
EXACT = replace(
    LINUX,
    name="linux-exact",
    title="Linux on a simulated processor",
    modes=(*(mode for mode in FIREWALL if mode is not FILTER_OWN), BRIDGE, *FAST_PATHS.values(), TWO_ROUTERS, *GUEST_TUNNELS),
    kernel_tables=False,
    runs_engine=False,
)
"""Guest that the workload `exact` boots on a host; the host itself is not changed."""

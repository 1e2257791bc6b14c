"""Flows of a Linux DUT: a methods.ports.StateTable of nf_conntrack, by sysctl, netlink and nft.

A network namespace has its own time-outs and rules. `nf_conntrack_max` and the number of buckets are those of the whole machine and can be
set only in its first namespace (nf_conntrack_standalone.c, nf_conntrack_standalone_init_sysctl()).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dutlab.dut.linux_tracking import forget_flows
from dutlab.dut.mode import Announce, UndoStep
from dutlab.dut.nft_rules import TABLE
from dutlab.errors import MeasurementError
from dutlab.hosts.host import Host
from dutlab.methods.dut_tables import FlowCounts

_SYS = "/proc/sys/net/netfilter"
_TIMEOUTS = ("nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream")
_MAX = "nf_conntrack_max"
_READ = f"""
for k in nf_conntrack_count {_MAX} {" ".join(_TIMEOUTS)}; do [ -r {_SYS}/$k ] && echo "$k $(cat {_SYS}/$k)"; done
cat /proc/net/stat/nf_conntrack 2>/dev/null; true
"""
_SHOWN = ("insert_failed", "drop", "early_drop", "clashres", "invalid")
"""Counters of dropped frames of new flows, and of older flows deleted for them (Documentation/networking/nf_conntrack-sysctl.rst)."""
_CHAIN = ("nft", "list", "chain", "inet", TABLE, "postrouting")
_FLUSH_CHAIN = f"flush chain inet {TABLE} postrouting\n"


class LinuxFlows:
    """Flow table of a Linux DUT. `announce` is called with each setting before it is changed."""

    def __init__(self, dut: Host, announce: Announce) -> None:
        self._dut, self._announce = dut, announce

    async def counts(self) -> FlowCounts:
        """Return the number of flows, its limit, and the counters. Raises HostError."""
        keys, counters = await self._read()
        return FlowCounts(keys.get("nf_conntrack_count"), keys.get(_MAX), counters)

    async def forget(self) -> None:
        """Delete all flows. Raises HostError."""
        await forget_flows(self._dut)

    async def keep(self, seconds: float) -> None:
        """Lengthen the time-outs of UDP to `seconds`; never shorten them. Raises CommandFailed."""
        keys, _ = await self._read()
        short = [key for key in _TIMEOUTS if keys.get(key, 1 << 31) < seconds]
        if short:
            self._announce("time-outs of flows", [self._set({key: keys[key] for key in short}, "time-outs of UDP as they were found")])
            await self._dut.run(self._set(dict.fromkeys(short, round(seconds) + 1), "").argv)

    async def limit(self, flows: int) -> None:
        """Limit the table to `flows`. Raises MeasurementError."""
        keys, _ = await self._read()
        if _MAX not in keys:
            raise MeasurementError(
                "the DUT tracks no flows, so its table has no limit", remedy="measure a mode that tracks, as filter-default"
            )
        self._announce("size of the table", [self._set({_MAX: keys[_MAX]}, "the table as large as it was found")])
        await self._dut.run(self._set({_MAX: flows}, "").argv, check=False)
        now, _ = await self._read()
        if now.get(_MAX) != flows:
            what = f"{_MAX} stays {now.get(_MAX)}: it is one for the whole machine, and a network namespace cannot set it"
            raise MeasurementError(what, remedy="leave table_flows out, or set it in the machine's first namespace, which the lab shares")

    async def limit_ports(self, first: int, last: int) -> None:
        """Limit translation to the ports from `first` to `last`. Raises MeasurementError, CommandFailed."""
        done = await self._dut.run(_CHAIN, check=False)
        rules = [line for line in done.text.splitlines() if line.rstrip().endswith("masquerade")]
        if done.status or not rules:
            raise MeasurementError(
                "the mode does not translate, so there are no ports to limit", remedy="leave nat_ports out, or measure nat"
            )
        limited = done.text
        for rule in rules:
            narrow = rule.replace("masquerade", f"meta l4proto {{ tcp, udp }} masquerade to :{first}-{last}")
            limited = limited.replace(rule, f"{narrow}\n{rule}")
        self._announce("ports of translated flows", [UndoStep(self._dut.name, ("nft", "-f", "-"), _FLUSH_CHAIN + done.text, "all ports")])
        await self._dut.run(["nft", "-f", "-"], stdin=(_FLUSH_CHAIN + limited).encode())

    async def _read(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return settings by name, and counters."""
        lines = [line.split() for line in (await self._dut.run(["sh", "-c", _READ])).text.splitlines()]
        keys = {words[0]: int(words[1]) for words in lines if len(words) == len(("key", "value")) and words[0].startswith("nf_")}
        return keys, _counters([words for words in lines if words and not words[0].startswith("nf_")])

    def _set(self, values: Mapping[str, int], why: str) -> UndoStep:
        pairs = (f"net/netfilter/{key}={value}" for key, value in values.items())
        return UndoStep(self._dut.name, ("sysctl", "-q", "-w", *pairs), "", why)


def _counters(table: Sequence[Sequence[str]]) -> dict[str, int]:
    """Parse /proc/net/stat/nf_conntrack: names, then a line of hexadecimal numbers for each CPU."""
    if not table:
        return {}
    total = Counter[str]()
    for row in table[1:]:
        total.update({name: int(number, 16) for name, number in zip(table[0], row, strict=False)})
    return {name: total[name] for name in _SHOWN if name in table[0]}

"""Open vSwitch with its userspace datapath (datapath_type=netdev): separate database and daemon, one bridge per link, OpenFlow rules.

Words: ovs-vswitchd(8), ovs-vsctl(8), ovs-ofctl(8), ovs-actions(7). Tested with 3.1.0, the version of Debian 12.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dutlab.dut.device_programs import DevicePrograms, ProgramText
from dutlab.dut.mode import UdpFlow
from dutlab.dut.user_space import Crossing
from dutlab.hosts.host import Host
from dutlab.hosts.programs import OVS_VSWITCHD, OVSDB_SERVER, TASKSET, Program
from dutlab.systems.polled import OVS_ASKS, parse_ovs

_PLACE = "export OVS_RUNDIR=$PWD OVS_DBDIR=$PWD OVS_LOGDIR=$PWD OVS_SYSCONFDIR=$PWD\n"
"""Variables that keep all files of Open vSwitch in the folder, so that other instances on the machine are not affected."""
_QUIET = "-vsyslog:off -vfile:off -vconsole:warn"
_ASK = 'ovs-appctl -t "$PWD/vswitchd.ctl"'
_SET = "ovs-vsctl --db=unix:db.sock --timeout=20"
_DATABASE = f"{_PLACE}ovsdb-tool create conf.db || exit\nexec ovsdb-server conf.db --remote=punix:db.sock --unixctl=ovsdb.ctl {_QUIET}"
IN, OUT = 1, 2
"""OpenFlow numbers of a bridge's two ports."""


@dataclass(frozen=True)
class OpenVswitch:
    """Open vSwitch that forwards frames unchanged, routes them, or routes what its connection tracking permits."""

    does: Literal["switch", "route", "filter"]
    polls: bool = False
    """True for ports of type afxdp, each polled by a thread; otherwise the daemon sleeps until a packet socket has frames."""

    @property
    def needs(self) -> Sequence[Program]:
        """Programs on the DUT."""
        return (OVSDB_SERVER, OVS_VSWITCHD, TASKSET)

    @property
    def stop(self) -> Sequence[str]:
        """Commands that end the switch, which removes its bridges, and then the database."""
        return (f"{_ASK} exit --cleanup", 'ovs-appctl -t "$PWD/ovsdb.ctl" exit')

    def made_ports(self, links: int) -> Sequence[str]:
        """Return the datapath's own port, and that of each bridge."""
        return ("ovs-netdev", *(f"dutlab{n}" for n in range(links)))

    def commands(self, ways: Sequence[Crossing], cores: Sequence[int]) -> ProgramText:
        """Return the commands that start the database, then the switch on the DUT's cores."""
        del ways
        mask = f" -- set Open_vSwitch . other_config:pmd-cpu-mask={sum(1 << core for core in cores):#x}" if self.polls else ""
        switch = (
            f"{_PLACE}until [ -S db.sock ]; do sleep 0.05; done\n"
            f"{_SET} --no-wait init{mask}\n"
            f"exec taskset -c {','.join(map(str, cores))} ovs-vswitchd unix:db.sock --unixctl=vswitchd.ctl {_QUIET}"
        )
        return ProgramText((_DATABASE, switch), (f"{_ASK} version",), self.stop)

    async def configure(self, programs: DevicePrograms, dut: Host, ways: Sequence[Crossing]) -> None:
        """Make the bridges, and return when the switch has their ports. Raises CommandFailed with the message of Open vSwitch."""
        for n, way in enumerate(ways):
            await programs.run(dut, f"{_PLACE}{_SET} {' '.join(self._bridge(n, way))}")
            # The bridge's own port would receive all flooded frames.
            await programs.run(dut, f"{_PLACE}ovs-ofctl mod-port dutlab{n} dutlab{n} no-flood && ovs-ofctl add-flows dutlab{n} -",
                               stdin="\n".join(self._flows(n, way)))  # fmt: skip

    def _bridge(self, n: int, way: Crossing) -> Iterator[str]:
        bridge = f"dutlab{n}"
        # The bridge has a separate address: otherwise a switch would treat frames for its ports as its own.
        yield f"-- add-br {bridge} -- set Bridge {bridge} datapath_type=netdev fail_mode=secure other_config:hwaddr=02:00:00:ff:00:{n:02x}"
        for number, port in zip((IN, OUT), way.ports, strict=True):
            kind = " type=afxdp options:n_rxq=1" if self.polls else ""
            yield f"-- add-port {bridge} {port} -- set Interface {port} ofport_request={number}{kind}"

    def _flows(self, n: int, way: Crossing) -> Iterator[str]:
        if self.does == "switch":
            yield "actions=NORMAL"
            return
        out, back = (f"dec_ttl,mod_dl_src:{way.macs[to]},mod_dl_dst:{way.peers[to]},output:{number}" for to, number in ((1, OUT), (0, IN)))
        yield "priority=0,actions=drop"
        for ip in ("ip", "ipv6"):
            if self.does == "route":
                yield f"priority=10,in_port={IN},{ip},actions={out}"
                yield f"priority=10,in_port={OUT},{ip},actions={back}"
                continue
            zone = f"zone={n + 1}"
            yield f"priority=10,{ip},actions=ct(table=1,{zone})"
            yield f"table=1,priority=10,in_port={IN},{ip},ct_state=+trk+est,actions={out}"
            yield f"table=1,priority=10,in_port={OUT},{ip},ct_state=+trk+est,actions={back}"
            yield f"table=1,priority=10,in_port={IN},{ip},ct_state=+trk+new,actions=ct(commit,{zone}),{out}"

    async def counters(self, programs: DevicePrograms, dut: Host) -> Mapping[str, float]:
        """Return the counters of its threads: frames, passes of its tables, cycles and polls."""
        return parse_ovs((await programs.run(dut, f'{_PLACE}ask() {{ {_ASK} "$@"; }}\n{OVS_ASKS}')).text)

    async def is_tracked(self, programs: DevicePrograms, dut: Host, flow: UdpFlow) -> bool | None:
        """Return whether its connection table has the flow."""
        listing = (await programs.run(dut, f"{_PLACE}{_ASK} dpctl/dump-conntrack")).text
        wanted = f"orig=(src={flow.source},dst={flow.destination},sport={flow.source_port},dport={flow.destination_port})"
        return re.search(re.escape(wanted), listing) is not None

"""Programs that hosts must have, and the check for them before anything is measured."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from dutlab.errors import ToolMissing, ToolsMissing
from dutlab.hosts.host import Host

_T = TypeVar("_T")


@dataclass(frozen=True)
class Program:
    """A program by name, with its Debian package. Any of `others` can replace it."""

    name: str
    package: str
    others: tuple[str, ...] = ()
    build: str = ""
    """How to get it where no package has it; the package is then that of its sources."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names, that of the program itself first."""
        return (self.name, *self.others)


CHARON = Program("charon-systemd", "charon-systemd")
CHRT = Program("chrt", "util-linux")
DPDK_L3FWD = Program("dpdk-l3fwd", "dpdk-doc", build="examples/user-space/l3fwd.sh builds it from the sources in")
DPDK_TELEMETRY = Program("dpdk-telemetry.py", "dpdk-dev")
DPDK_TESTPMD = Program("dpdk-testpmd", "dpdk-dev")
ETHTOOL = Program("ethtool", "ethtool")
IP = Program("ip", "iproute2")
IPERF3 = Program("iperf3", "iperf3")
NFT = Program("nft", "nftables")
OVSDB_SERVER = Program("ovsdb-server", "openvswitch-switch")
OVS_VSWITCHD = Program("ovs-vswitchd", "openvswitch-switch")
OPENSSL = Program("openssl", "openssl")
OPENVPN = Program("openvpn", "openvpn")
PING = Program("ping", "iputils-ping")
PYTHON3 = Program("python3", "python3")
SSHD = Program("sshd", "openssh-server")
STDBUF = Program("stdbuf", "coreutils")
SWANCTL = Program("swanctl", "strongswan-swanctl")
SYSCTL = Program("sysctl", "procps")
TAYGA = Program("tayga", "tayga")
TASKSET = Program("taskset", "util-linux")
TC = Program("tc", "iproute2")
UNSHARE = Program("unshare", "util-linux")
VPPCTL = Program("vppctl", "vpp")
WG = Program("wg", "wireguard-tools")
WIREGUARD_GO = Program("wireguard-go", "wireguard-go")


async def missing_on(host: Host, programs: Iterable[Program]) -> list[ToolMissing]:
    """Return those of `programs` that the host lacks, in one round trip. Raises HostError."""
    wanted = list(dict.fromkeys(programs))
    if not wanted:
        return []
    absent = (await host.run(host.system.shell.absent([p.names for p in wanted]))).text.split()
    return [_missing(host, p) for p in wanted if p.name in absent]


def insist(missing: Sequence[ToolMissing]) -> None:
    """Raise ToolMissing for one missing program, ToolsMissing for several; each host and program once. Do nothing for none."""
    once = dict[tuple[str, str], ToolMissing]()
    for absent in missing:
        once.setdefault((absent.host, absent.tool), absent)
    if len(once) > 1:
        raise ToolsMissing(list(once.values()))
    for absent in once.values():
        raise absent


def _missing(host: Host, program: Program) -> ToolMissing:
    remedy = install_command(host, program.package)
    if program.build:
        remedy = f"{program.build} {program.package}: {remedy}"
    what = f"it has none of {', '.join(program.names)}" if program.others else f"{program.name} is not installed"
    return ToolMissing(what, tool=program.name, host=host.name, remedy=remedy)


async def all_there(looks: Iterable[Awaitable[_T]], missing: Sequence[ToolMissing] = ()) -> list[_T]:
    """Return the result of each look.

    Raises ToolMissing for one missing program, ToolsMissing for several. `missing` has programs already known to be missing.
    """
    results, missing = list[_T](), list(missing)
    for look in looks:
        try:
            results.append(await look)
        except ToolMissing as e:
            missing.append(e)
        except ToolsMissing as e:
            missing += e.missing
    insist(missing)
    return results


def versions_of(by_host: Mapping[str, str]) -> str:
    """Return the version of all hosts, or the version of each host if they differ."""
    if len(set(by_host.values())) == 1:
        return next(iter(by_host.values()))
    return ", ".join(f"{host} {version}" for host, version in by_host.items())


def install_command(host: Host, package: str) -> str:
    """Return the instruction to install a package on the host."""
    return f"install it ({host.system.install.format(package)})"

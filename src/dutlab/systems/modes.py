"""Modes of a DUT: one record each, used by all packages. No I/O.

Users write a mode's name in experiment.yaml. `systems.modes_of` finds the record of a name; no other code derives anything from a name. A
system (`systems/NAME.py`) lists the records of its modes, and the family (`dut/NAME.py`) applies and verifies them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Between = Literal["networks", "hosts"]
"""Ends of a link's tunnel: the networks behind both ends, or the two ends themselves."""
ArrayCondition = Literal["", "degraded", "rebuilding", "rebuilt"]
"""Condition of an array; empty: healthy from the start."""
MD, LVM, BTRFS, ZFS, OWN = "md", "lvm", "btrfs", "zfs", "own"
"""Engines of arrays; `own` means commands of an experiment file."""
SETS = 2
"""Number of sets in a level that is a stripe of sets."""


@dataclass(frozen=True)
class Behaviour:
    """Behaviour that frames must show in a mode."""

    tracks: bool
    """True if the DUT keeps a state for each flow."""
    admits_unsolicited: bool
    """True if a new flow from the sink's side passes."""
    translates: bool = False
    """True if the sink sees the DUT's outer address instead of the source's."""


ROUTES = Behaviour(tracks=False, admits_unsolicited=True)
TRACKS = Behaviour(tracks=True, admits_unsolicited=True)
GUARDS = Behaviour(tracks=True, admits_unsolicited=False)
TRANSLATES = Behaviour(tracks=True, admits_unsolicited=False, translates=True)
TRANSLATES_OPEN = Behaviour(tracks=True, admits_unsolicited=True, translates=True)


@dataclass(frozen=True)
class ModeTunnel:
    """Tunnel from the source of each link to the DUT. It carries packets of the source's kernel, but no frames of the engine."""

    wrapping: str
    """Name of its overhead in physics/ceilings/tunnel.py."""
    drops_clear: bool = False
    """True if unencrypted packets are dropped; otherwise they bypass the tunnel."""
    between: Between = "networks"
    by_number: bool = False
    """True if a link may have several (factor `tunnels`)."""


@dataclass(frozen=True)
class ModeArray:
    """One array of all drives of a host."""

    engine: str
    level: str
    """Level, in the engine's words."""
    least_drives: int
    """Least number of drives (md(4), lvmraid(7), mkfs.btrfs(8), zpoolconcepts(7))."""
    raid: int | None = None
    """Number of the RAID level if it determines the blocks of each drive; else None."""
    set_level: str = ""
    """Level of each of the two sets, for a level that is a stripe of sets."""
    even: bool = False
    """True if it needs an even number of drives."""
    redundant: bool = True
    """True if it can lose a drive."""
    state: ArrayCondition = ""
    device: str = ""
    """Path of the block device, for an array made by commands of an experiment file."""

    def misfit(self, drives: int) -> str:
        """Return why this number of drives makes no array; empty if it does."""
        if drives < self.least_drives:
            return f"needs {self.least_drives} drives, and there are {drives}"
        return f"needs an even number of drives, and there are {drives}" if self.even and drives % SETS else ""


@dataclass(frozen=True)
class DeclaredMode:
    """Mode of a family of DUTs, or of an experiment file."""

    name: str
    behaviour: Behaviour = ROUTES
    """Behaviour of frames; that of a router for modes that do not concern frames."""
    tunnel: ModeTunnel | None = None
    array: ModeArray | None = None
    forwards: Literal["ip", "ethernet", "either"] = "ip"
    """Layer: between networks by IP, or within one by Ethernet; `either` if unknown."""


AS_FOUND = DeclaredMode("as-found", forwards="either")
ROUTER = DeclaredMode("router")
FILTER_EMPTY, FILTER_EMPTY_UNTRACKED = DeclaredMode("filter-empty", TRACKS), DeclaredMode("filter-empty")
FILTER_1, FILTER_25 = DeclaredMode("filter-1"), DeclaredMode("filter-25")
"""Filters of RFC 2544 section 11.4."""
FILTER_DEFAULT = DeclaredMode("filter-default", GUARDS)
FILTER_OWN = DeclaredMode("filter-own", TRACKS)
"""Mode that keeps the ruleset which the system loads automatically."""
NAT, NAT_OPEN = DeclaredMode("nat", TRANSLATES), DeclaredMode("nat-open", TRANSLATES_OPEN)
"""Modes with translation; `nat-open` has no filter."""
BRIDGE, BRIDGE_FILTER_25 = (DeclaredMode(name, forwards="ethernet") for name in ("bridge", "bridge-filter-25"))
"""Modes with ports joined below IP, without filters and with those of FILTER_25."""
XDP_FORWARD = DeclaredMode("xdp-forward")
"""Router whose frames do not reach its IP stack: a program at its ports looks up the route and forwards them."""
TWO_ROUTERS = DeclaredMode("two-routers")
"""Two routers in a row, like the ends of tunnels, in the guest of `linux-exact`."""
FAST_PATHS = {
    ROUTER: DeclaredMode("flowtable", TRACKS), FILTER_DEFAULT: DeclaredMode("filter-default-flowtable", GUARDS),
    NAT: DeclaredMode("nat-flowtable", TRANSLATES),
}  # fmt: skip
"""Mode → the mode with the kernel's fast path, for the guest of `linux-exact`; elsewhere `flowtable` is a factor."""
OVS_SWITCH, OVS_ROUTER, OVS_FILTER = DeclaredMode("ovs-switch"), DeclaredMode("ovs-router"), DeclaredMode("ovs-filter", GUARDS)
OVS_ROUTER_POLLING = DeclaredMode("ovs-router-polling")
TESTPMD_IO, TESTPMD_MAC = DeclaredMode("testpmd-io"), DeclaredMode("testpmd-mac")
L3FWD_LPM, L3FWD_FIB, L3FWD_XDP = DeclaredMode("l3fwd-lpm"), DeclaredMode("l3fwd-fib"), DeclaredMode("l3fwd-xdp")
USER_SPACE = (
    OVS_SWITCH, OVS_ROUTER, OVS_ROUTER_POLLING, OVS_FILTER, TESTPMD_IO, TESTPMD_MAC, L3FWD_LPM, L3FWD_FIB, L3FWD_XDP,
)  # fmt: skip
"""Modes in which a program of the host forwards in place of its kernel."""
FIREWALL, FIREWALL_UNTRACKED = (
    (ROUTER, empty, FILTER_1, FILTER_25, FILTER_DEFAULT, FILTER_OWN, NAT, NAT_OPEN) for empty in (FILTER_EMPTY, FILTER_EMPTY_UNTRACKED)
)
"""Modes of a firewall; in the second tuple a filter without rules tracks no flow."""

_ESP = {
    "": "esp-aes-gcm", "-cbc": "esp-aes-cbc-sha256", "-null": "esp-null-sha256", "-3des-md5": "esp-3des-md5",
    "-aes-cbc-sha1": "esp-aes-cbc-sha1", "-aes-cbc-sha2-512": "esp-aes-cbc-sha512", "-aes-gcm-256": "esp-aes-gcm",
    "-chacha20-poly1305": "esp-chacha20-poly1305",
}  # fmt: skip
XFRM, IKEV2 = (
    tuple(
        DeclaredMode(f"{keys}{cipher}", tunnel=ModeTunnel(wrapping, drops_clear=True, by_number=keys == "ipsec"))
        for cipher, wrapping in _ESP.items()
    )
    for keys in ("ipsec", "ikev2")
)
"""ESP with every cipher that is tested on Linux, with keys set by hand and with negotiated keys."""
IPSEC = XFRM[:2]
"""Modes of ESP that every family supports."""
IPSEC_REQUIRE = replace(IPSEC[0], name="ipsec-require")
"""Mode in which the DUT accepts only protected packets from the source."""
IKEV2_HOST = DeclaredMode("ikev2-host", tunnel=ModeTunnel("esp-aes-gcm", between="hosts"))
"""Mode that encrypts packets between the source and the DUT itself, but not those forwarded to the sink."""
GRE, IPIP, OPENVPN = (DeclaredMode(kind, tunnel=ModeTunnel(kind)) for kind in ("gre", "ipip", "openvpn"))
VXLAN, WIREGUARD = (DeclaredMode(kind, tunnel=ModeTunnel(kind, by_number=True)) for kind in ("vxlan", "wireguard"))
WIREGUARD_GO = replace(WIREGUARD, name="wireguard-go")
"""Mode with a process in place of the DUT's kernel."""
TUNNELS = (*XFRM, *IKEV2, IPSEC_REQUIRE, IKEV2_HOST, GRE, IPIP, VXLAN, WIREGUARD, WIREGUARD_GO, OPENVPN)
"""All tunnel modes of Linux."""
GUEST_TUNNELS = tuple(replace(mode, tunnel=None) for mode in (*XFRM, WIREGUARD))
"""Tunnels of a guest that has both ends, so the source has none."""

_LEVELS = (
    ModeArray(MD, "raid0", 2, raid=0, redundant=False), ModeArray(MD, "raid1", 2, raid=1), ModeArray(MD, "raid10", 4, raid=10),
    ModeArray(MD, "raid5", 3, raid=5), ModeArray(MD, "raid6", 4, raid=6),
    ModeArray(MD, "raid50", 6, raid=50, set_level="raid5", even=True), ModeArray(MD, "raid60", 8, raid=60, set_level="raid6", even=True),
    ModeArray(LVM, "raid0", 2, raid=0, redundant=False), ModeArray(LVM, "raid1", 2, raid=1),
    ModeArray(LVM, "raid10", 4, raid=10, even=True), ModeArray(LVM, "raid5", 3, raid=5), ModeArray(LVM, "raid6", 5, raid=6),
    ModeArray(BTRFS, "raid0", 2, redundant=False), ModeArray(BTRFS, "raid1", 2), ModeArray(BTRFS, "raid10", 4),
    ModeArray(ZFS, "stripe", 2, redundant=False), ModeArray(ZFS, "mirror", 2), ModeArray(ZFS, "raidz1", 3), ModeArray(ZFS, "raidz2", 4),
)  # fmt: skip


def _in_states(array: ModeArray) -> tuple[DeclaredMode, ...]:
    """Return the modes of an array: healthy, degraded, rebuilding and rebuilt.

    btrfs has no mode that rebuilds: its speed cannot be limited, so a rebuild would end before it is measured.
    """
    states: tuple[ArrayCondition, ...] = ("", "degraded", *(() if array.engine == BTRFS else ("rebuilding",)), "rebuilt")
    engine = "" if array.engine == MD else array.engine
    return tuple(
        DeclaredMode("-".join(filter(None, (engine, array.level, state))), array=replace(array, state=state))
        for state in (states if array.redundant else states[:1])
    )


ARRAYS = tuple(mode for array in _LEVELS for mode in _in_states(array))

"""Family `linux-exact`: a Linux guest on a simulated processor. The workload `exact` boots it, sets its mode and measures it.

The host that runs the simulation is not changed. The rulesets are those of family `linux`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.dut import nft_rules
from dutlab.dut.linux import ruleset_of
from dutlab.dut.linux_exact_tunnels import gateway
from dutlab.dut.linux_exact_words import SINK_IP, SINK_MAC, SOURCE_IP, SOURCE_MAC, GuestWords
from dutlab.dut.mode import Check, Family, OfRecord, Prober, Unset
from dutlab.hosts.host import Host
from dutlab.spec.known import EXACT, FAMILY_MODES
from dutlab.spec.links import DUT
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import FAST_PATHS

GUEST = Testbed.model_validate(
    {
        "testbed": "guest",
        "hosts": {name: {"local": True} for name in ("source", "dut", "sink")},
        "links": {
            "a": {
                "path": ["source:v0", "dut:v1", "dut:v2", "sink:v3"],
                "addresses": [f"{SOURCE_IP}/24", "10.0.0.2/24", "10.1.0.2/16", f"{SINK_IP}/16"],
            }
        },
    },
)
"""Network of the guest, for the rulesets of the modes."""
_ROUTER = (
    "ip addr add 10.0.0.2/24 dev v1",
    "ip addr add 10.1.0.2/16 dev v2",
    f"ip neigh add {SINK_IP} lladdr {SINK_MAC} dev v2 nud permanent",
    f"ip neigh add {SOURCE_IP} lladdr {SOURCE_MAC} dev v1 nud permanent",
    "echo 1 >/proc/sys/net/ipv4/ip_forward",
)
# The bridge learns the sink's port from its ARP request.
_BRIDGE = (
    "ip link add br0 type bridge",
    *(f"ip link set {port} master br0" for port in ("v1", "v2")),
    "ip link set br0 up",
    f"ip netns exec sink sh -c 'ip addr add {SINK_IP}/16 dev v3; ping -c 1 -W 1 10.1.0.9 || true'",
)
_FAST_PATHS = {fast.name: of.name for of, fast in FAST_PATHS.items()}


def in_words(mode: str, own: Sequence[str] | None, tunnels: int = 1) -> GuestWords:
    """Return the commands for a mode. `own` are the commands of an experiment's mode; they follow those that make a router."""
    if own is not None:
        return GuestWords((*_ROUTER, *own))
    if mode == "bridge":
        return GuestWords(_BRIDGE, SINK_MAC, modules={"bridge": "BRIDGE"})
    if mode in _FAST_PATHS:
        rules = ruleset_of(_FAST_PATHS[mode], GUEST)
        fast = nft_rules.fast_path(GUEST.ports_of(DUT), rules, hardware=False)
        return GuestWords((*_ROUTER, nft_words(rules + fast)), modules={"nft_flow_offload": "NFT_FLOW_OFFLOAD"})
    return gateway(mode, tunnels) or GuestWords((*_ROUTER, nft_words(ruleset_of(mode, GUEST))))


def nft_words(ruleset: str) -> str:
    """Return a command that loads the ruleset; error messages of nft name its lines."""
    return f"nft -f - <<'dutlab-end-of-rules'\n{ruleset}\ndutlab-end-of-rules"


@dataclass(frozen=True)
class GuestMode(Unset, OfRecord):
    """Mode of the guest. Each trial applies it to a new guest and verifies it by frames."""

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Return no checks: the trial verifies the mode."""
        del dut, testbed, prober
        return []


FAMILY = Family(EXACT, {name: GuestMode(declared) for name, declared in FAMILY_MODES[EXACT].items()})

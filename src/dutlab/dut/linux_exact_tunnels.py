"""Two gateways of family `linux-exact` with a tunnel between them, and the same path without a tunnel.

    v0 → v1 [namespace dut: the near gateway] v2 → f1 [namespace far: the other one] f2 → v3

Keys are fixed, so that the figures are repeatable. WireGuard encrypts in separate threads. The generator runs only while these are idle
(SCHED_IDLE), so that each frame is forwarded completely before the next one, as in all other modes.
"""

from __future__ import annotations

from dutlab.dut.ipsec_rules import XFRM_SUITES, Suite
from dutlab.dut.linux_exact_words import OUT_MAC, SINK_MAC, SOURCE_IP, SOURCE_MAC, GuestWords
from dutlab.hosts.programs import CHRT, WG
from dutlab.systems.modes import TWO_ROUTERS, WIREGUARD

_NEAR, _FAR = "10.2.0.1", "10.2.0.2"
_SOURCES, _SINKS = "10.0.0.0/24", "10.1.0.0/16"
_AROUND_BYTES = 200
"""Extra MTU between the gateways: more than the overhead of any tunnel here."""
_PORT = 51820
_FAR_MAC, _BEYOND_MAC = "02:00:00:00:00:11", "02:00:00:00:00:12"
_OUTSIDE = (
    "ip netns add far",
    "ip netns exec far sh -c 'for all in all default; do echo 1 >/proc/sys/net/ipv6/conf/$all/disable_ipv6; done'",
    "ip -n dut link del v2",
    f"ip -n dut link add v2 address {OUT_MAC} type veth peer name f1 address {_FAR_MAC} netns far",
    f"ip -n far link add f2 address {_BEYOND_MAC} type veth peer name v3 address {SINK_MAC} netns sink",
    "mtu=$(cat /sys/class/net/v0/mtu)",
    f"longer=$((mtu + {_AROUND_BYTES}))",
    "ip -n dut link set v2 mtu $longer up",
    "ip -n far link set f1 mtu $longer up",
    "ip -n far link set f2 mtu $mtu up",
    "ip -n sink link set v3 mtu $mtu up",
    f"ip -n far addr add {_FAR}/24 dev f1",
    "ip -n far addr add 10.3.0.2/24 dev f2",
    f"ip -n far neigh add {_NEAR} lladdr {OUT_MAC} dev f1 nud permanent",
    f"ip -n far neigh add 10.3.0.1 lladdr {SINK_MAC} dev f2 nud permanent",
    f"ip -n far route add {_SINKS} via 10.3.0.1",
    f"ip -n far route add {_SOURCES} via {_NEAR}",
    "ip netns exec far sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'",
)
"""Commands that make the far gateway between router and sink. They run in the guest's first namespace, where ports are up and have their
MTU."""
_GATEWAY = (
    "ip addr add 10.0.0.2/24 dev v1",
    f"ip addr add {_NEAR}/24 dev v2",
    f"ip neigh add {_FAR} lladdr {_FAR_MAC} dev v2 nud permanent",
    f"ip neigh add {SOURCE_IP} lladdr {SOURCE_MAC} dev v1 nud permanent",
    "echo 1 >/proc/sys/net/ipv4/ip_forward",
)
_OF_THIS_PROCESSOR = (
    "aesni_intel", "ghash_clmulni_intel", "chacha_x86_64", "poly1305_x86_64", "curve25519_x86_64", "libblake2s_x86_64", "sha1_ssse3",
    "sha256_ssse3", "sha512_ssse3", "des3_ede_x86_64",
)  # fmt: skip
"""Cipher modules for instructions of certain processors: udev loads those that fit, and the others refuse to load."""
_LOADED = f"for module in {' '.join(_OF_THIS_PROCESSOR)}; do modprobe $module 2>/dev/null || true; done"
CIPHERS = (
    *_OF_THIS_PROCESSOR, "authenc", "echainiv", "seqiv", "gcm", "ghash_generic", "ctr", "cbc", "ecb", "hmac", "md5", "sha1_generic",
    "sha256_generic", "sha512_generic", "drbg", "des_generic", "crypto_null", "chacha20poly1305", "chacha_generic", "poly1305_generic",
    "aes_generic",
)  # fmt: skip
"""Cipher modules to add to the guest where the kernel has them."""


def gateway(mode: str, tunnels: int = 1) -> GuestWords | None:
    """Return the commands for both ends of `tunnels` tunnels, each for a separate destination; None for a mode without gateways."""
    if mode == TWO_ROUTERS.name:
        return GuestWords((*_GATEWAY, f"ip route add {_SINKS} via {_FAR}"), outside=_OUTSIDE, hop=f"via {_FAR}")
    if mode == WIREGUARD.name:
        return _wireguard(tunnels)
    return next((_ipsec(suite, tunnels) for suite in XFRM_SUITES if suite.mode.name == mode), None)


def _each(tunnels: int, lines: str) -> str:
    """Return a shell loop over the tunnels with `$n` and the networks `$sinks`: one script for all would be too large for a guest."""
    sinks = _SINKS if tunnels == 1 else "10.1.$((16 + n / 256)).$((n % 256))/32"
    return f"n=0; while [ $n -lt {tunnels} ]; do\nsinks={sinks}\n{lines}\nn=$((n + 1))\ndone"


def _ipsec(suite: Suite, tunnels: int) -> GuestWords:
    keys = [bytes(range(1, n + 1)).hex() for n in suite.key_bytes]
    protected = f"src {_NEAR} dst {_FAR} proto esp"
    state = f"xfrm state add {protected} spi $((4096 + n)) reqid $((n + 1)) mode tunnel {suite.xfrm.format(*keys)}".replace('"', '\\"')
    ends: dict[str, tuple[str, ...]] = {"ip": ("out",), "ip -n far": ("in", "fwd")}
    batches = []
    for ip, ways in ends.items():
        policies = (f"xfrm policy add src {_SOURCES} dst $sinks dir {way} tmpl {protected} reqid $((n + 1)) mode tunnel" for way in ways)
        batches.append(_each(tunnels, "\n".join(f'echo "{line}"' for line in (state, *policies))) + f" | {ip} -batch -")
    commands = (*_GATEWAY, f"ip route add {_SINKS} via {_FAR}", "modprobe -a xfrm_user esp4", _LOADED, *batches)
    return GuestWords(commands, outside=_OUTSIDE, hop=f"via {_FAR}", modules={"xfrm_user": "XFRM_USER", "esp4": "INET_ESP"})


def _wireguard(tunnels: int) -> GuestWords:
    """Return the commands of WireGuard: a port with a peer per tunnel at the near gateway, a port per tunnel at the far one."""
    # A key is text that the clamping of RFC 7748 section 5 would not change: `0` ends with three bits 0, and `A` begins with 01.
    key = "printf 0%030dA {} | base64 | "
    options = f"listen-port $(({_PORT} + n)) private-key /proc/self/fd/0 peer $near endpoint {_NEAR}:{_PORT} allowed-ips {_SOURCES}"
    peer = f"[Peer]\nPublicKey = $(far wg show wg$n public-key)\nAllowedIPs = $sinks\nEndpoint = {_FAR}:$(({_PORT} + n))"
    commands = [
        *_GATEWAY, _LOADED, "mtu=$(cat /sys/class/net/v1/mtu)", 'far() { ip netns exec far "$@"; }',
        f"ip link add wg0 type wireguard; {key.format(1)}wg set wg0 listen-port {_PORT} private-key /proc/self/fd/0",
        "ip link set wg0 mtu $mtu up",
        "near=$(wg show wg0 public-key)",
        _each(tunnels, 'echo "link add wg$n mtu $mtu type wireguard"') + " | ip -n far -batch -",
        _each(tunnels, key.format("$((n + 2))") + f"far wg set wg$n {options}"),
        _each(tunnels, 'echo "link set wg$n up"') + " | ip -n far -batch -",  # only now: without a port set, each takes any free one
        _each(tunnels, f'echo "{peer}\nPersistentKeepalive = 1"') + " >/tmp/peers",
        "wg addconf wg0 /tmp/peers",
        f"ip route add {_SINKS} dev wg0",
        f"ip -n far route replace {_SOURCES} dev wg0",
        # A peer with a keepalive negotiates keys at once.
        f"tries=300; until [ $(wg show wg0 latest-handshakes | grep -vc '\t0$') = {tunnels} ]; do",
        "  tries=$((tries - 1)); [ $tries -gt 0 ] || { echo 'the ends do not agree on keys'; exit 1; }; sleep 0.1",
        "done",
        "sed -i 's/^PersistentKeepalive.*/PersistentKeepalive = off/' /tmp/peers; wg addconf wg0 /tmp/peers",
        "chrt -i -p 0 $(pidof kpktgend_0)",
    ]  # fmt: skip
    return GuestWords(tuple(commands), outside=_OUTSIDE, hop="dev wg0", modules={"wireguard": "WIREGUARD"}, programs=(CHRT, WG))

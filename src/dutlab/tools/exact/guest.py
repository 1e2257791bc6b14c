"""Guest: its programs and modules, its network, and the script of a trial.

    pktgen → v0 = v1 [namespace dut: the router] v2 = v3 [namespace sink: a rule counts and drops]
    pktgen → g0 = g1 [the same sink]

The second path is the rig: the same generator and the same sink without the router in between. All of it is one kernel on one processor,
which carries a frame to its end before pktgen makes the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dutlab.dut.linux_exact_tunnels import CIPHERS
from dutlab.dut.linux_exact_words import SINK_IP, SOURCE_MAC, GuestWords, destination
from dutlab.errors import LabError
from dutlab.hosts.initramfs import (
    BUSYBOX,
    DATA,
    FOLDER,
    PROGRAM,
    Entries,
    archive,
    folders_above,
    program_entries,
    unpacked,
    with_dependencies,
)
from dutlab.hosts.programs import ETHTOOL, IP, NFT, TC, Program
from dutlab.spec.named_mixes import FCS_BYTES
from dutlab.spec.workloads.exact import ExactSetting

MARK = "dutlab:"
"""Prefix of our lines on the console."""
SCRIPT = "opt/dutlab/trial"
"""Name of a trial's script among the files of QEMU's firmware."""
PROGRAMS = (BUSYBOX, IP, NFT, TC, ETHTOOL)
"""Programs of this machine that every guest gets."""
PAUSE = "pause"
"""Word that the guest prints before it pauses itself."""
SYMBOLS_BEGIN, SYMBOLS_END = "symbols", "symbols end"
"""Words that the guest prints before and after the functions of its kernel."""
_NEEDED = {"veth": "VETH", "pktgen": "NET_PKTGEN", "nf_tables": "NF_TABLES", "qemu_fw_cfg": "FW_CFG_SYSFS"}
"""Module → option of the kernel's configuration."""
_OTHERS = (
    "nft_", "nf_", "x_tables", "bridge", "llc", "stp", "8021q", "ipip", "ip_gre", "gre", "udp_tunnel", "ip6_udp_tunnel",
    "act_", "cls_", "sch_", "esp4", "xfrm_user", "wireguard", "vxlan",
)  # fmt: skip
_ETHER_BYTES = 14
_PORT = 5001
INSTRUCTIONS = ("aes", "avx", "avx2", "avx512f", "bmi2", "erms", "fsrm", "pclmulqdq", "sha_ni", "ssse3", "vaes", "vpclmulqdq")
"""Flags of /proc/cpuinfo that are recorded."""
_BOOT_LIMIT_S = 60
_FIRST_SOURCE_PORT, PROOF_FRAMES, _PROOF_PORT = 10000, 64, 9000
TRACED, TRACED_RIG = "traced", "traced-rig"
"""Names of passes with a log of each instruction."""
_TRACED_FRAMES, _FEWEST_TRACED, _RULES_TRACED = 128, 8, 100
"""Frames of a traced pass, the least number, and the number of rules that halves the frames."""
_SYMBOLS = f"""say {SYMBOLS_BEGIN}
grep -i " [tw] " /proc/kallsyms
say {SYMBOLS_END}"""
_INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /run /tmp /sbin
mount -t tmpfs run /run
mkdir -p /run/netns
ln -s /bin/modprobe /sbin/modprobe
say() {{ echo "{MARK} $*"; }}
fail() {{ say "failed $*"; poweroff -f; sleep 9; }}
(sleep {_BOOT_LIMIT_S}; say late; poweroff -f) & late=$!
for module in $(cat /needed); do modprobe $module || fail "no module $module"; done
echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
for space in dut sink; do
  ip netns add $space
  ip netns exec $space sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'
done
ip link add v0 address {SOURCE_MAC} type veth peer name v1 address 02:00:00:00:00:01 netns dut || fail "cannot make veth"
ip -n dut link add v2 address 02:00:00:00:00:02 type veth peer name v3 address 02:00:00:00:00:03 netns sink
ip link add g0 address 02:00:00:00:00:04 type veth peer name g1 address 02:00:00:00:00:05 netns sink
ip -n dut link set lo up
for port in v0 g0; do ip link set $port up; done
for port in v1 v2; do ip -n dut link set $port up; done
for port in v3 g1; do ip -n sink link set $port up; done
for device in /sys/bus/pci/devices/*; do
  [ "$(cat $device/vendor) $(cat $device/device)" = "0x1b36 0x0011" ] && read -r address _ <$device/resource && echo 1 >$device/enable
done
kill $late
sleep 1
say ready
devmem $address 8 1 || fail "no /dev/mem"
modprobe qemu_fw_cfg || fail "no module qemu_fw_cfg"
. /sys/firmware/qemu_fw_cfg/by_name/{SCRIPT}/raw
poweroff -f
"""
# Counters that nft prints and resets in one command: our frames and foreign frames since the last time.
_SINK = """table netdev sink {
  set seen { typeof @th,96,32; flags dynamic; size 65536; }
  counter ours { }
  counter foreign { }
  chain proof { udp dport %(port)s @th,64,32 0xbe9be955 add @seen { @th,96,32 } counter name ours drop; counter name foreign drop; }
  chain plain { udp dport %(port)s counter name ours drop; counter name foreign drop; }
  chain v3 { type filter hook ingress device "v3" priority 0; policy drop; goto proof; }
  chain g1 { type filter hook ingress device "g1" priority 0; policy drop; goto plain; }
}
"""
# Instructions that decide how the kernel copies, sums and encrypts; and the ciphers in use (crypto/proc.c).
_HAS = f"""say has $(sed -n '/^flags/{{s/.*://p;q}}' /proc/cpuinfo | tr ' ' '\\n' | grep -xE '{"|".join(INSTRUCTIONS)}' | sort)
say ciphers $(awk '$1 == "driver" {{ name = $3 }} $1 == "refcnt" && $3 > 1 {{ print name }}' /proc/crypto 2>/dev/null | sort)"""
_PLAIN = "flush chain netdev sink v3; add rule netdev sink v3 goto plain"
_TRIAL = """(sleep {limit_s}; say late; poweroff -f) & late=$!
pg() {{ echo "$2" >/proc/net/pktgen/$1 || fail "pktgen does not take $2"; }}
pause() {{ say {pause}; devmem $address 8 1; }}
dut() {{ ip netns exec dut "$@"; }}
nft_in() {{ ip netns exec $1 nft "$2"; }}
for port in v0 g0; do ip link set $port mtu {mtu}; done
for port in v1 v2; do ip -n dut link set $port mtu {mtu}; done
for port in v3 g1; do ip -n sink link set $port mtu {mtu}; done
{outside}
cat >/tmp/mode <<'dutlab-end-of-mode'
{mode}
dutlab-end-of-mode
dut sh -e /tmp/mode >/tmp/said 2>&1 || {{ sed 's/^/{mark} said /' /tmp/said; fail mode; }}
{offload}
{routes}
cat >/tmp/sink <<'dutlab-end-of-sink'
{sink}
dutlab-end-of-sink
ip netns exec sink nft -f /tmp/sink || fail sink
pass() {{
  pg kpktgend_0 rem_device_all
  pg kpktgend_0 "add_device $2"
  [ $2 = v0 ] && pg v0 "dst_mac {to_mac}" || pg g0 "dst_mac 02:00:00:00:00:05"
  for word in "src_min 10.0.0.1" "src_max 10.0.0.1" "dst_min {dst_min}" "dst_max {dst_max}" "udp_dst_min {port}" "udp_dst_max {port}" \
    "delay 0" "count $3" "pkt_size $4" "udp_src_min $5" "udp_src_max $6"; do pg $2 "$word"; done
  $around
  sleep 0.2
  pg pgctrl start
  $around
  say "pass $* $(grep -A1 Result: /proc/net/pktgen/$2 | tr '\\n' ' ')"
  ip netns exec sink nft reset counters | tr '\\n' ' ' | sed 's/^/{mark} counted /'
  echo
}}
pass proof v0 {proof} {shortest} {proof_port} {proof_end}
ip netns exec sink nft list set netdev sink seen | tr ',' '\\n' | grep -c 0x | sed 's/^/{mark} distinct /'
ip netns exec sink nft '{plain}' || fail sink
{passes}
say tracked $(dut cat /proc/sys/net/netfilter/nf_conntrack_count 2>/dev/null || echo 0)
{has}
dut nft list ruleset | sed 's/^/{mark} ruleset /'
{traced}
say done
"""


@dataclass(frozen=True)
class Pass:
    """Frames of one size on one path."""

    name: str
    size: int
    """Frame size, FCS included."""
    frames: int
    port: str
    """Sending port: `v0` through the router, `g0` for the rig."""

    @property
    def is_traced(self) -> bool:
        """True if each instruction of it is logged."""
        return self.name in {TRACED, TRACED_RIG}


def passes_of(setting: ExactSetting) -> list[Pass]:
    """Return the passes in order: first frames of flows before any other, then each size over the rig and through the router."""
    sizes = [(int(size), weight) for size, weight in setting.frame_size.parts]
    whole = sum(weight for _, weight in sizes)
    passes = list[Pass]()
    for n, (size, weight) in enumerate(sizes):
        each = max(1, round(setting.frames * weight / whole))
        if n == 0 and setting.flow_count >= FEWEST_NEW:
            passes += [Pass("first-rig", size, setting.flow_count, "g0"), Pass("first", size, setting.flow_count, "v0")]
        elif n == 0:
            passes.append(Pass("warm", size, max(setting.flow_count, PROOF_FRAMES, setting.tunnels), "v0"))
        passes += [Pass("rig", size, each, "g0"), Pass("router", size, each, "v0")]
    if setting.profile:
        frames = max(_FEWEST_TRACED, _TRACED_FRAMES // (1 + setting.rules // _RULES_TRACED))
        passes += [Pass(name, size, frames, port) for size, _ in sizes for name, port in ((TRACED_RIG, "g0"), (TRACED, "v0"))]
    return passes


# veth uses GRO for frames of a port that cannot join them itself: veth_skb_is_eligible_for_gro() in drivers/net/veth.c.
_OFFLOADS = {"none": "", "gro": "ethtool -K v0 tso off && dut ethtool -K v1 gro on rx-udp-gro-forwarding on || fail gro"}
FEWEST_NEW = 100
"""Least number of flows for a pass of first frames: fewer frames cannot be separated from the cost of the start."""


def trial_script(setting: ExactSetting, words: GuestWords, passes: Sequence[Pass]) -> bytes:
    """Return the script that puts a guest into its mode and measures it."""
    ends = _FIRST_SOURCE_PORT + setting.flow_count
    targets = max(setting.routes, setting.tunnels if setting.tunnels > 1 else 0)
    lines = [
        (p.is_traced, f"pass {p.name} {p.port} {p.frames} {p.size - FCS_BYTES} {_FIRST_SOURCE_PORT} {ends}")
        for p in passes
    ]  # fmt: skip
    traced = [line for is_traced, line in lines if is_traced]
    shortest = min(size for size, _ in setting.frame_size.parts)
    text = _TRIAL.format(
        limit_s=setting.limit_s,
        mtu=setting.mtu,
        outside=_outside(words.outside),
        offload=_OFFLOADS[setting.offload],
        has=_HAS,
        mode="\n".join([*words.commands, *_rules(setting.rules)]),
        mark=MARK,
        routes=_routes(setting.routes, words.hop),
        sink=_SINK % {"port": _PORT},
        to_mac=words.to_mac,
        dst_min=destination(0) if targets else SINK_IP,
        dst_max=destination(targets - 1) if targets else SINK_IP,
        port=_PORT,
        proof=PROOF_FRAMES,
        shortest=int(shortest) - FCS_BYTES,
        proof_port=_PROOF_PORT,
        proof_end=_PROOF_PORT + 1,
        plain=_PLAIN,
        passes="\n".join(line for is_traced, line in lines if not is_traced),
        pause=PAUSE,
        traced="\n".join([_SYMBOLS, "around=pause", *traced] if traced else ()),
    )
    return text.encode()


def layer3_bytes(p: Pass) -> int:
    """Return the bytes that the sink's rule counts for all frames of a pass."""
    return p.frames * (p.size - FCS_BYTES - _ETHER_BYTES)


def _rules(count: int) -> list[str]:
    """Return the commands for `count` rules before those of the mode; no frame of a trial matches them."""
    if not count:
        return []
    body = "\\n".join(f"tcp dport {1 + n % 65535} drop" for n in range(count))
    chain = "chain forward {\\ntype filter hook forward priority -10; policy accept;\\n"
    return [f"printf 'table inet rules {{\\n{chain}{body}\\n}}\\n}}\\n' | nft -f -"]


def _outside(commands: Sequence[str]) -> str:
    """Return the script of commands outside the DUT. A refused command is reported like one of the mode."""
    if not commands:
        return ""
    lines = "\n".join(commands)
    refused = f"{{ sed 's/^/{MARK} said /' /tmp/said; fail mode; }}"
    return f"cat >/tmp/outside <<'dutlab-end-of-outside'\n{lines}\ndutlab-end-of-outside\nsh -e /tmp/outside >/tmp/said 2>&1 || {refused}"


def _routes(count: int, hop: str) -> str:
    """Return the script for a route to each destination, all by one hop."""
    if not count:
        return ""
    line = 'printf "route add 10.1.%d.%d ' + hop + '\\n", n / 256, n % 256'
    step = f"awk 'BEGIN {{ for (n = 4096; n < {4096 + count}; n++) {line} }}'"
    return f"{step} >/tmp/routes\nip -n dut -batch /tmp/routes || fail routes"


def guest_image(modules: Path, release: str, *, more: Sequence[Program] = ()) -> bytes:
    """Return the guest's initramfs, with `more` programs. Raises LabError if a program or a module is missing, OSError."""
    entries: Entries = dict.fromkeys(("proc", "sys", "dev", "run", "tmp", "sbin", "lib", "lib/modules"), (FOLDER, b""))
    for program in (*PROGRAMS, *more):
        entries |= program_entries(program)
    here = modules / "modules.dep"
    if (modules / "kernel").is_dir() and not here.exists():
        remedy = f"write it: depmod -b {modules.parents[2]} {release}"
        raise LabError(f"{modules}: has modules and no modules.dep", remedy=remedy)
    if here.exists():
        entries |= _modules(modules, release)
    entries["needed"] = (DATA, " ".join(_NEEDED if here.exists() else ()).encode())
    entries["init"] = (PROGRAM, _INIT.encode())
    return archive(entries)


def insist_on_modules(modules: Path, release: str, needed: Mapping[str, str]) -> None:
    """Check that a kernel has the `needed` modules (module → option of its configuration). Raises LabError.

    If no file lists the kernel's modules, the check is left to the guest.
    """
    there = {*_modules_by_name(modules), *(_module_name(line) for line in _lines(modules / "modules.builtin"))}
    if there and (absent := [f"{name} (CONFIG_{option})" for name, option in needed.items() if name not in there]):
        raise LabError(f"the kernel {release} lacks {', '.join(absent)}", remedy="take a kernel with these, as linux-image-cloud-amd64")


def _modules_by_name(modules: Path) -> dict[str, str]:
    return {_module_name(path): path for path in (line.partition(":")[0] for line in _lines(modules / "modules.dep"))}


def _module_name(path: str) -> str:
    return Path(path).name.partition(".")[0].replace("-", "_")


def _modules(modules: Path, release: str) -> Entries:
    """Return the kernel's modules that routers and firewalls use, in the folder where its programs look for them."""
    insist_on_modules(modules, release, _NEEDED)
    by_name = _modules_by_name(modules)
    wanted = [
        Path(p).name.partition(".")[0] for name, p in by_name.items() if name in _NEEDED or name in CIPHERS or name.startswith(_OTHERS)
    ]
    paths = with_dependencies(modules, wanted)
    entries: Entries = {}
    for path in paths:
        place = f"lib/modules/{release}/{_plain(path.relative_to(modules))}"
        entries |= folders_above(place) | {place: (DATA, unpacked(path))}
    files = {_plain(path.relative_to(modules)) for path in paths}
    names = set(map(_module_name, files))
    depends = "".join(
        f"{_plain(path)}: {' '.join(map(_plain, on.split()))}\n"
        for path, _, on in (line.partition(":") for line in _lines(modules / "modules.dep"))
        if _plain(path) in files
    )
    alias = "".join(f"{line}\n" for line in _lines(modules / "modules.alias") if line.rpartition(" ")[2] in names)
    folder = f"lib/modules/{release}"
    return entries | {f"{folder}/modules.dep": (DATA, depends.encode()), f"{folder}/modules.alias": (DATA, alias.encode())}


def _plain(path: Path | str) -> str:
    return str(path).removesuffix(".xz")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

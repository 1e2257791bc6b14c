"""Command `limits`: compute ceilings from facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import ValidationError

from dutlab.cli.limits_text import computed, say_ceilings, say_ladder
from dutlab.cli.quantities import AMOUNT, BIT_RATE, BYTE_RATE, DURATION, SHARE
from dutlab.errors import InputError
from dutlab.physics.ceilings.storage import CABLES
from dutlab.physics.ceilings.tunnel import TUNNELS
from dutlab.units import RFC2544_FRAME_SIZES, BpsL1, Seconds

if TYPE_CHECKING:
    from dutlab.physics.ceilings.ceiling import Ceiling
    from dutlab.physics.ceilings.ethernet import Ip
    from dutlab.physics.ceilings.ladder import Ladder
    from dutlab.physics.ceilings.pcie import PcieLink
    from dutlab.physics.ceilings.storage import DriveRating
    from dutlab.physics.ceilings.tunnel import TunnelWrapping

_Command = TypeVar("_Command", bound=Callable[..., object])
_SPEED = click.option("--speed", type=BIT_RATE, required=True, help="Speed of the link, as in 10G.")
_MTU = click.option("--mtu", type=int, default=1500, show_default=True, help="MTU of IP packets, bytes.")
_IP = click.option("--ip", "ip_version", type=click.Choice(["4", "6"]), default="4", show_default=True, help="IP version.")
_VLAN = click.option(
    "--vlan", "vlan_tags", type=int, default=0, show_default=True, help="VLAN tags in each frame, which the MTU does not count."
)
_STAMPS = click.option("--timestamps/--no-timestamps", default=True, show_default=True, help="TCP timestamps, 12 bytes a segment.")
_DRIVES = click.option("--drives", type=int, required=True, help="Number of drives.")
_RATING = (
    click.option("--read-iops", type=AMOUNT, help="Random reads a second of one drive, as in 610200 or 610k."),
    click.option("--write-iops", type=AMOUNT, help="Random writes a second of one drive."),
    click.option("--read-rate", type=BYTE_RATE, help="Sequential reads of one drive, as in 2800MB/s."),
    click.option("--write-rate", type=BYTE_RATE, help="Sequential writes of one drive."),
    click.option("--models", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="CSV of ratings, a row a model."),
    click.option("--model", help="Row of --models for the drives."),
)
_JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")


def _rated(command: _Command) -> _Command:
    """Add the options with the rating of a drive, whose values `_rating` takes."""
    return reduce(lambda of, option: option(of), reversed(_RATING), command)


@click.group()
def limits() -> None:
    """\b
    Example:
      dutlab limits tcp --speed 10G --mtu 9000
    """


@limits.command()
@_SPEED
@click.option(
    "--frame", "sizes", multiple=True, metavar="SIZE", help="Bytes with FCS and any tags, a mix or a genome; repeatable.  [RFC 2544's]"
)
@_JSON
def ethernet(*, speed: float, sizes: tuple[str, ...], as_json: bool) -> None:
    """Frames a second and bit rates of an Ethernet link, at L1 and L2.

    \b
    Example:
      dutlab limits ethernet --speed 10G --frame 64 --frame imix
    """
    from dutlab.physics.ceilings.ethernet import ethernet_ceilings

    means = {size: _mean(size) for size in sizes or map(str, RFC2544_FRAME_SIZES)}
    say_ceilings(computed(lambda: ethernet_ceilings(BpsL1(speed), means)), as_json=as_json)


@limits.command()
@_SPEED
@_MTU
@_IP
@_VLAN
@_STAMPS
@click.option("--rtt", type=DURATION, help="Round-trip time, for the window that fills the link.")
@_JSON
def tcp(*, speed: float, mtu: int, ip_version: str, vlan_tags: int, timestamps: bool, rtt: float | None, as_json: bool) -> None:
    """Goodput of TCP.

    \b
    Example:
      dutlab limits tcp --speed 10G --mtu 1500 --timestamps --rtt 1ms
    """
    from dutlab.physics.ceilings.ethernet import tcp_ceilings

    trip = None if rtt is None else Seconds(rtt)
    results = computed(
        lambda: tcp_ceilings(BpsL1(speed), mtu=mtu, ip=_ip(ip_version), vlan_tags=vlan_tags, timestamps=timestamps, rtt=trip)
    )
    say_ceilings(results, as_json=as_json)


@limits.command()
@_SPEED
@_MTU
@_IP
@_VLAN
@_JSON
def udp(*, speed: float, mtu: int, ip_version: str, vlan_tags: int, as_json: bool) -> None:
    """Goodput of UDP, in the longest datagrams that the MTU allows.

    \b
    Example:
      dutlab limits udp --speed 10G --ip 6
    """
    from dutlab.physics.ceilings.ethernet import udp_ceilings

    say_ceilings(computed(lambda: udp_ceilings(BpsL1(speed), mtu=mtu, ip=_ip(ip_version), vlan_tags=vlan_tags)), as_json=as_json)


@limits.command()
@click.argument("kinds", metavar="[KIND]…", nargs=-1, type=click.Choice([t.name for t in TUNNELS]))
@_SPEED
@_MTU
@click.option(
    "--outer", "outer_version", type=click.Choice(["4", "6"]), default="4", show_default=True, help="IP version between the ends."
)
@click.option("--nat-t", is_flag=True, help="ESP inside UDP (RFC 3948).")
@click.option("--inner", type=int, help="Bytes of the packet inside.  [the largest that fits]")
@_STAMPS
@_JSON
def tunnel(
    *, kinds: tuple[str, ...], speed: float, mtu: int, outer_version: str, nat_t: bool, inner: int | None, timestamps: bool, as_json: bool
) -> None:
    """Overhead, largest inner packet, and goodput of TCP through ESP, WireGuard, VXLAN, GRE and IP in IP; without KIND, of all of them.

    \b
    Example:
      dutlab limits tunnel esp-aes-gcm wireguard --speed 10G --nat-t
    """
    from dutlab.physics.ceilings.tunnel import tunnel_ceilings

    chosen = [_with_nat_t(t) if nat_t else t for t in TUNNELS if t.name in kinds or not kinds]
    outer = _ip(outer_version)

    def found() -> Sequence[Ceiling]:
        of_each = (tunnel_ceilings(BpsL1(speed), t, outer=outer, mtu=mtu, inner=inner, timestamps=timestamps) for t in chosen)
        return [c for ceilings in of_each for c in ceilings]

    say_ceilings(computed(found), as_json=as_json)


@limits.command()
@click.option("--gen", type=int, required=True, help="Generation, 1 to 6.")
@click.option("--width", type=int, required=True, help="Lanes.")
@click.option("--payload", type=int, help="Maximum payload size (MPS), bytes, as the link was set up.")
@click.option("--devices", type=int, help="Number of such links that share the uplinks below.")
@click.option("--uplink-gen", type=int, help="Generation of an uplink.")
@click.option("--uplink-width", type=int, help="Lanes of an uplink.")
@click.option("--uplinks", type=int, default=1, show_default=True, help="Number of uplinks.")
@click.option("--spec", type=BYTE_RATE, help="Rating of one device, as in 7GB/s.")
@_JSON
def pcie(
    *, gen: int, width: int, payload: int | None, devices: int | None, uplink_gen: int | None, uplink_width: int | None, uplinks: int,
    spec: float | None, as_json: bool,
) -> None:  # fmt: skip
    """Bytes a second of a PCI Express link, and of several devices that share lanes.

    \b
    Example:
      dutlab limits pcie --gen 4 --width 4 --payload 256 --devices 32 --uplink-gen 4 --uplink-width 16 --uplinks 2 --spec 7GB/s
    """
    from dutlab.physics.ceilings.pcie import PcieLink, pcie_ceilings, shared_ceilings

    shared = (devices, uplink_gen, uplink_width)
    if any(v is not None for v in shared) and None in shared:
        raise InputError("devices that share uplinks need all of --devices, --uplink-gen and --uplink-width")

    def found() -> Sequence[Ceiling]:
        link = PcieLink(gen, width)
        own = pcie_ceilings(link, payload=payload)
        if devices is None or uplink_gen is None or uplink_width is None:
            return own
        return [*own, *shared_ceilings(link, devices, PcieLink(uplink_gen, uplink_width), uplinks, payload=payload, spec_bytes_per_s=spec)]

    say_ceilings(computed(found), as_json=as_json)


@limits.command()
@click.argument("interface", metavar="INTERFACE", type=click.Choice(list(CABLES)))
@click.option("--lanes", type=int, default=1, show_default=True, help="Lanes of a wide port.")
@_JSON
def disk(*, interface: str, lanes: int, as_json: bool) -> None:
    """Bytes a second of a drive's cable: sata1 to sata3, sas1 to sas4. For NVMe see pcie.

    \b
    Example:
      dutlab limits disk sas3 --lanes 4
    """
    from dutlab.physics.ceilings.storage import disk_ceilings

    say_ceilings(computed(lambda: disk_ceilings(interface, lanes)), as_json=as_json)


@limits.command()
@click.argument("level", metavar="LEVEL", type=int)
@_DRIVES
@_rated
@click.option("--writes", type=SHARE, help="Share of writes among small requests, as in 16%.")
@click.option("--groups", type=int, help="For RAID 50 and 60: the number of RAID 5 or 6 groups that data are striped over.")
@click.option("--degraded", is_flag=True, help="Add reads and writes with one drive gone.")
@_JSON
def raid(
    *, level: int, drives: int, writes: float | None, groups: int | None, degraded: bool, as_json: bool, **rating: Any  # noqa: ANN401 -- click gives them
) -> None:  # fmt: skip
    """Requests and bytes a second of a RAID level, from the rating of one drive.

    \b
    Example:
      dutlab limits raid 5 --drives 32 --read-iops 610200 --write-iops 75k --read-rate 2800MB/s --write-rate 2400MB/s --degraded
    """
    from dutlab.physics.ceilings.storage import Array, raid_ceilings

    drive = _rating(**rating)
    say_ceilings(
        computed(lambda: raid_ceilings(Array(level, drives, groups), drive, write_share=writes, degraded=degraded)), as_json=as_json
    )


@limits.command()
@_DRIVES
@click.option("--block", type=str, default="4k", show_default=True, help="Bytes of a request.")
@click.option("--writes", type=SHARE, default=0.0, help="Share of writes, as in 30%.  [none]")
@_rated
@click.option("--level", type=int, help="RAID level.  [no array]")
@click.option("--groups", type=int, help="Groups of RAID 50 and 60.")
@click.option("--drive-link", type=str, metavar="GENxWIDTH", help="Link of each drive, as in 4x4.")
@click.option("--uplink", type=str, metavar="GENxWIDTH", help="Link that the drives share, as in 3x16.")
@click.option("--uplinks", type=int, default=1, show_default=True, help="Number of uplinks.")
@click.option("--payload", type=int, help="Maximum payload size (MPS) of the links, bytes.")
@click.option("--mts", type=float, help="Megatransfers a second of memory, the number in DDR4-3200.")
@click.option("--channels", type=int, help="64-bit channels of memory in use.")
@click.option("--measured", type=AMOUNT, help="Measured requests a second.")
@_JSON
def ladder(
    *, drives: int, block: str, writes: float, level: int | None, groups: int | None, drive_link: str | None, uplink: str | None,
    uplinks: int, payload: int | None, mts: float | None, channels: int | None, measured: float | None, as_json: bool, **rating: Any,  # noqa: ANN401 -- click gives them
) -> None:  # fmt: skip
    """Limits of drives, array, links and memory: each as a share of the drives' rating, and the lowest of them.

    \b
    Example:
      dutlab limits ladder --drives 32 --read-iops 610200 --uplink 3x16 --uplinks 4 --payload 256 --measured 9999k
    """
    from dutlab.physics.ceilings.ladder import Load
    from dutlab.physics.ceilings.ladder import ladder as of_parts
    from dutlab.physics.ceilings.path import Path as DataPath
    from dutlab.physics.ceilings.storage import Array
    from dutlab.spec.drives import parse_size

    drive = _rating(**rating)
    if (mts is None) != (channels is None):
        raise InputError("memory needs both --mts and --channels")

    def found() -> Ladder:
        array = None if level is None else Array(level, drives, groups)
        path = DataPath(_link(drive_link), _link(uplink), uplinks, payload, None if mts is None or channels is None else (mts, channels))
        return of_parts(drives, drive, Load(parse_size(block), writes), array=array, path=path)

    say_ladder(computed(found), measured, as_json=as_json)


@limits.command()
@click.option("--mts", type=float, required=True, help="Megatransfers a second, the number in DDR4-3200.")
@click.option("--channels", type=int, required=True, help="64-bit channels in use.")
@_JSON
def memory(*, mts: float, channels: int, as_json: bool) -> None:
    """Peak bytes a second of DRAM.

    \b
    Example:
      dutlab limits memory --mts 4800 --channels 8
    """
    from dutlab.physics.ceilings.storage import memory_ceilings

    say_ceilings(computed(lambda: memory_ceilings(mts, channels)), as_json=as_json)


@limits.command()
@click.option("--wanted", type=AMOUNT, required=True, help="Wanted rate, as in 2.976M, or a percentage, as in 200.")
@click.option("--measured", type=AMOUNT, required=True, help="Measured rate, in the same unit.")
@click.option("--cores", type=float, help="Number of cores that forwarded the measured rate.")
@_JSON
def share(*, wanted: float, measured: float, cores: float | None, as_json: bool) -> None:
    """Wanted rate as a multiple of a measured one, and the number of cores that it takes.

    \b
    Example:
      dutlab limits share --wanted 200 --measured 154 --cores 4
    """
    from dutlab.physics.ceilings.share import share_ceilings

    say_ceilings(computed(lambda: share_ceilings(wanted, measured, cores)), as_json=as_json)


def _ip(version: str) -> Ip:
    from dutlab.physics.ceilings.ethernet import Ip

    return Ip[f"V{version}"]


def _rating(models: Path | None, model: str | None, **given: float | None) -> DriveRating:
    """Return a drive's rating from --models and options, which override it. Raises InputError, SpecRefused."""
    from dutlab.physics.ceilings.storage import DriveRating
    from dutlab.spec.drive_models import model_file

    if (models is None) != (model is None):
        raise InputError("a rating from a table needs both --models and --model")
    row: Mapping[str, float] = {}
    if models is not None and model is not None:
        table = model_file(models)
        if model not in table:
            raise InputError(f"{models} has no model {model}", remedy=f"it has {', '.join(table) or 'none'}")
        row = table[model]
    names = {"read_iops": "read_iops", "write_iops": "write_iops", "read_bytes_per_s": "read_rate", "write_bytes_per_s": "write_rate"}
    return DriveRating(*(row.get(name) if given[option] is None else given[option] for name, option in names.items()))


def _with_nat_t(kind: TunnelWrapping) -> TunnelWrapping:
    from dutlab.physics.ceilings.tunnel import Esp

    if not isinstance(kind, Esp):
        raise InputError(f"--nat-t is for ESP, not for {kind.name}", remedy="name the kinds of ESP, or leave it out")
    return replace(kind, nat_t=True)


def _mean(size: str) -> float:
    from dutlab.spec.mixes import Mix

    try:
        return Mix.model_validate(size).mean
    except ValidationError as error:
        raise InputError("; ".join(e["msg"].removeprefix("Value error, ") for e in error.errors())) from None


def _link(text: str | None) -> PcieLink | None:
    from dutlab.physics.ceilings.pcie import PcieLink

    if text is None:
        return None
    generation, _, width = text.partition("x")
    if not (generation.isdecimal() and width.isdecimal()):
        raise ValueError(f"{text!r} is not a link; write its generation and its lanes, as in 4x16")
    return PcieLink(int(generation), int(width))

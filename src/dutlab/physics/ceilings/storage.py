"""Ceilings of drives, their cables, arrays and memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dutlab.physics.ceilings.ceiling import Ceiling, insist, number, positive


@dataclass(frozen=True)
class Cable:
    """A storage link: gigabits per second on the wire, line code, and source of both."""

    gigabits: float
    numerator: int
    denominator: int
    source: str

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second of one lane, in each direction."""
        return self.gigabits * 1e9 * self.numerator / self.denominator / 8


_SAS = "8b/10b; thomas-krenn.com, SAS overview"
CABLES = {
    "sata1": Cable(1.5, 8, 10, "Serial ATA, 8b/10b"),
    "sata2": Cable(3.0, 8, 10, "Serial ATA, 8b/10b"),
    "sata3": Cable(6.0, 8, 10, "Serial ATA 6 Gb/s, 8b/10b; howtogeek.com/219685"),
    "sas1": Cable(3.0, 8, 10, _SAS),
    "sas2": Cable(6.0, 8, 10, _SAS),
    "sas3": Cable(12.0, 8, 10, _SAS),
    "sas4": Cable(22.5, 128, 150, "SAS-4, 128b/150b"),
}


def disk_ceilings(interface: str, lanes: int = 1) -> tuple[Ceiling, ...]:
    """Return the ceiling of a drive's cable or a controller's wide port, by its name in CABLES. Raises ValueError."""
    cable = CABLES.get(interface)
    insist([
        "" if cable else f"{interface!r} is not a known interface; known are {', '.join(CABLES)}; for NVMe ask for pcie",
        positive(lanes, "the number of lanes"),
        "a SATA drive has one lane" if interface.startswith("sata") and lanes != 1 else "",
    ])  # fmt: skip
    assert cable is not None  # noqa: S101 - insist() has refused None
    formula = f"{cable.gigabits:g}e9 × {cable.numerator}/{cable.denominator} / 8 × {lanes}"
    about = f"{interface} x{lanes}"
    return (Ceiling("link_bytes_per_s", about, "link, each way", cable.bytes_per_s * lanes, "B/s", formula, cable.source),)


def memory_ceilings(megatransfers: float, channels: int) -> tuple[Ceiling, ...]:
    """Return the peak rate of DRAM with 64-bit channels. Two channels of DDR4-3200 are 3200 and 2. Raises ValueError."""
    insist([positive(megatransfers, "the transfers"), positive(channels, "the number of channels")])
    value = megatransfers * 1e6 * 8 * channels
    formula = f"{megatransfers:g}e6 × 8 × {channels}"
    source = "JEDEC: 8 bytes a transfer and channel. Each byte of a disk passes at least once; parity reads it again"
    return (Ceiling("memory_bytes_per_s", f"{megatransfers:g} MT/s × {channels}", "peak", value, "B/s", formula, source),)


@dataclass(frozen=True)
class DriveRating:
    """Ratings of one drive; None: unknown. IOPS are for small random requests, bytes per second for long sequential ones."""

    read_iops: float | None = None
    write_iops: float | None = None
    read_bytes_per_s: float | None = None
    write_bytes_per_s: float | None = None


_PARITY = {5: 1, 6: 2}
_NESTED = {50: 5, 60: 6}
_LEAST = {0: 1, 1: 2, 5: 3, 6: 4, 10: 4}


@dataclass(frozen=True)
class Array:
    """A RAID level over N drives. RAID 50 and 60 stripe over `groups` of RAID 5 or 6. Raises ValueError for impossible arrays."""

    level: int
    drives: int
    groups: int | None = None

    def __post_init__(self) -> None:
        nested = self.level in _NESTED
        groups, drives, least = self.groups or 1, self.drives, _LEAST.get(_NESTED.get(self.level, self.level))
        insist([
            "" if least else f"RAID {self.level}: not known; known are {', '.join(map(str, (*_LEAST, *_NESTED)))}",
            "" if least is None or nested or drives >= least else f"RAID {self.level} needs at least {least} drives, not {drives}",
            "RAID 10 needs an even number of drives" if self.level == 10 and self.drives % 2 else "",  # noqa: PLR2004 - the level
            "" if nested or self.groups is None else f"RAID {self.level} takes no groups: only RAID 50 and 60 do",
            f"RAID {self.level} needs at least two groups" if nested and groups < 2 else "",  # noqa: PLR2004 - one is not a stripe
            f"{self.drives} drives cannot be divided into {groups} equal groups of at least {least}"
            if nested and least and groups > 1 and (self.drives % groups or self.drives // groups < least) else "",
        ])  # fmt: skip

    @property
    def group_count(self) -> int:
        """Groups of RAID 50 and 60; 1 for every other level."""
        return self.groups or 1

    @property
    def group(self) -> int:
        """Number of drives in one group."""
        return self.drives // self.group_count

    @property
    def parity(self) -> int:
        """Parity of a group, in drives: 1 for RAID 5 and 50, 2 for RAID 6 and 60, else 0."""
        return _PARITY.get(_NESTED.get(self.level, self.level), 0)

    @property
    def copies(self) -> int:
        """Number of copies of each byte without parity: all drives of RAID 1, two of RAID 10."""
        return {1: self.drives, 10: 2}.get(self.level, 1)

    @property
    def write_cost(self) -> int:
        """Requests to drives per small write, by the classic rule: 1 without redundancy, one per copy, 4 or 6 with parity."""
        return 2 * (1 + self.parity) if self.parity else self.copies

    @property
    def md_write_cost(self) -> int:
        """I/Os per small write with Linux md: min(2(1 + m), N). md reads the rest of the stripe instead, if that is less."""
        return min(self.write_cost, self.group) if self.parity else self.write_cost

    @property
    def md_write_reads(self) -> int:
        """Number of reads in md_write_cost: 1 + m to modify, N - m - 1 to reconstruct. The other I/Os write."""
        return min(1 + self.parity, self.group - self.parity - 1)

    @property
    def degraded_write_requests(self) -> tuple[int, int]:
        """Reads and writes for N small writes in a group of N drives with parity and one lost drive.

        The layout of stripes repeats after N; one write goes to each of them. The lost drive has the stripe's parity in m of N stripes, the
        written block in one, and another data block in the rest. If one parity is lost, md modifies or reconstructs the stripe as before,
        whichever reads less. If the written block is lost, md computes the parity from all other data. If another block is lost, md can
        only modify.
        """
        n, m = self.group, self.parity
        others = n - m - 1
        reads = m * (min(m, others) if m > 1 else 0) + others + others * (1 + m)
        writes = m * m + m + others * (1 + m)
        return reads, writes

    @property
    def data_drives(self) -> float:
        """Data in a full stripe, in drives."""
        return (self.drives - self.group_count * self.parity) / self.copies

    def __str__(self) -> str:
        return f"RAID {self.level} of {self.drives}{f' in {self.groups} groups' if self.groups else ''}"


_PENALTY = "write factors 2, 4, 6: servnetuk.com, RAID write penalty explained"
_MD = "Linux md, commit d06f191f8eca: rmw costs 2(1 + m) requests, rcw N; rmw_level 1 takes the cheaper"
_DEGRADED_WRITE = (
    "derived: with the parity of a stripe gone the block alone is written; with the block gone its parity is made of all other data; "
    "with another block gone the stripe is modified"
)
_SSD = "as above, with each read and write at the drive's own rate: an SSD reads faster than it writes"
_MERGED = "an engine that gathers small writes to full stripes reads nothing and writes parity once a stripe"
_CALCULATORS = "the formula of most RAID calculators; it averages rates, so it promises too much"
_CONSERVED = "each write counts as its number of requests; the drives serve the sum of their rated requests"
_SPEC = "the drives' rating added up"


def raid_ceilings(array: Array, drive: DriveRating, *, write_share: float | None = None, degraded: bool = False) -> tuple[Ceiling, ...]:
    """Return all ceilings that follow from the drive's rating; with `degraded` also those with one drive lost.

    `write_share` (0 to 1) adds the mix of small reads and writes with this share of writes. Raises ValueError.
    """
    rated = (drive.read_iops, drive.write_iops, drive.read_bytes_per_s, drive.write_bytes_per_s)
    insist([
        "" if any(v is not None for v in rated) else "a rating of the drive is needed: IOPS or bytes a second, of reads or writes",
        *(positive(v, "a drive's rating") for v in rated if v is not None),
        "" if write_share is None or 0 <= write_share <= 1 else f"the share of writes must be between 0 and 1, not {write_share:g}",
        "" if write_share is None or drive.read_iops is not None else "the mix of reads and writes needs the drive's read IOPS",
        "" if not degraded or array.level else "RAID 0 cannot lose a drive: all data are lost",
    ])  # fmt: skip
    out = [*_reads(array, drive), *_writes(array, drive)]
    if write_share is not None:
        out += _mix(array, drive, write_share)
    if degraded:
        out += _degraded(array, drive)
    return tuple(replace(c, about=str(array)) for c in out)


def _reads(array: Array, drive: DriveRating) -> list[Ceiling]:
    n, out = array.drives, []
    if (r := drive.read_iops) is not None:
        out.append(Ceiling("random_read_iops", "", "random reads", n * r, "IOPS", f"{n} × {number(r)}", _SPEC))
    if (b := drive.read_bytes_per_s) is not None:
        out.append(Ceiling("sequential_read_bytes_per_s", "", "sequential reads", n * b, "B/s", f"{n} × {number(b)}", _SPEC))
    return out


def _writes(array: Array, drive: DriveRating) -> list[Ceiling]:
    n, m, out = array.drives, array.parity, []
    if (b := drive.write_bytes_per_s) is not None:
        formula = f"({n} - {array.group_count * m}) × {number(b)}" if array.copies == 1 else f"{n} / {array.copies} × {number(b)}"
        source = "full stripes: parity and copies take up their share of the drives' rate"
        out.append(Ceiling("sequential_write_bytes_per_s", "", "sequential writes", array.data_drives * b, "B/s", formula, source))
    if (w := drive.write_iops) is None:
        return out
    cost, md = array.write_cost, array.md_write_cost
    out.append(
        Ceiling("random_write_iops", "", "random writes, classic rule", n * w / cost, "IOPS", f"{n} × {number(w)} / {cost}", _PENALTY)
    )
    if not m:
        return out
    merged, formula = array.data_drives * w, f"({n} - {array.group_count * m}) × {number(w)}"
    out.append(Ceiling("random_write_merged_iops", "", "random writes, merged into full stripes", merged, "IOPS", formula, _MERGED))
    formula = f"{n} × {number(w)} / min({cost}, {array.group})"
    out.append(Ceiling("random_write_md_iops", "", "random writes, Linux md", n * w / md, "IOPS", formula, _MD))
    if (r := drive.read_iops) is not None:
        reads, writes = array.md_write_reads, 1 + m
        value, formula = n / (reads / r + writes / w), f"{n} / ({reads} / {number(r)} + {writes} / {number(w)})"
        out.append(Ceiling("random_write_ssd_iops", "", "random writes, reads at their own rate", value, "IOPS", formula, _SSD))
    return out


def _mix(array: Array, drive: DriveRating, share: float) -> list[Ceiling]:
    raw, cost = array.drives * (drive.read_iops or 0.0), array.write_cost
    weighted, conserved = raw * share / cost + raw * (1 - share), raw / (1 - share + share * cost)
    what = f"{share:.0%} writes"
    usual = f"{number(raw)} × {share:g} / {cost} + {number(raw)} × {1 - share:g}"
    counted = f"{number(raw)} / ({1 - share:g} + {share:g} × {cost})"
    return [
        Ceiling("mix_iops", "", f"{what}, as usually computed", weighted, "IOPS", usual, _CALCULATORS),
        Ceiling("mix_conserved_iops", "", f"{what}, requests to drives counted", conserved, "IOPS", counted, _CONSERVED),
    ]


def _degraded(array: Array, drive: DriveRating) -> list[Ceiling]:
    """Return the ceilings with one drive lost.

    Requests are spread evenly, so the group (for RAID 10 the pair) with the lost drive limits all groups.
    """
    n, out = array.group, []
    if (r := drive.read_iops) is not None:
        if array.parity:
            each, formula = (
                (n * r / 2, f"{n} × {number(r)} / 2")
                if array.parity == 1
                else ((n - 1) * n * r / (2 * n - 3), f"{n - 1} × {n} × {number(r)} / {2 * n - 3}")
            )
            source = "one request in N reads all other drives of its stripe: 2(N - 1)/N requests on average; RAID 6 spares one, (2N - 3)/N"
        else:
            each, formula, source = _fewer_copies(array, r)
        out.append(_of_all(array, Ceiling("degraded_random_read_iops", "", "random reads, one drive gone", each, "IOPS", formula, source)))
    if (b := drive.read_bytes_per_s) is not None:
        if array.parity:
            each, formula = (n - 1) * b, f"({n} - 1) × {number(b)}"
            source = "the remaining drives read as many blocks of a stripe as it has data blocks"
        else:
            each, formula, source = _fewer_copies(array, b)
        what = "sequential reads, one drive gone"
        out.append(_of_all(array, Ceiling("degraded_sequential_read_bytes_per_s", "", what, each, "B/s", formula, source)))
    return [*out, *_degraded_writes(array, drive)]


def _degraded_writes(array: Array, drive: DriveRating) -> list[Ceiling]:
    """Return the ceilings of small writes with one drive lost. Without parity, a pair writes at one drive's rate, as before."""
    n, m = array.group, array.parity
    if (w := drive.write_iops) is None:
        return []
    what = "random writes, one drive gone"
    if not m:
        value, formula = n * w / array.copies, f"{n} × {number(w)} / {array.copies}"
        return [Ceiling("degraded_random_write_iops", "", what, value, "IOPS", formula, "each pair, also the one that lost a drive")]
    reads, writes = array.degraded_write_requests
    r = drive.read_iops or w
    value = (n - 1) * n / (reads / r + writes / w)
    formula = f"({n} - 1) × {n} / ({reads} / {number(r)} + {writes} / {number(w)})"
    source = _DEGRADED_WRITE + ("" if drive.read_iops else "; reads at the rate of writes, since theirs is not given")
    return [_of_all(array, Ceiling("degraded_random_write_iops", "", what, value, "IOPS", formula, source))]


def _fewer_copies(array: Array, rate: float) -> tuple[float, str, str]:
    if array.level == 1:
        return (array.drives - 1) * rate, f"({array.drives} - 1) × {number(rate)}", "the copies that are left"
    return (
        array.drives / 2 * rate,
        f"{array.drives} / 2 × {number(rate)}",
        "the pair that lost a drive has the rate of one drive, and every pair gets an equal share of the requests",
    )


def _of_all(array: Array, one: Ceiling) -> Ceiling:
    """Return the ceiling of all groups, computed from the group with the lost drive."""
    if array.group_count == 1:
        return one
    source = f"{one.source}; requests are spread evenly over all groups, so the group that lost a drive limits them all"
    return replace(one, value=array.group_count * one.value, formula=f"{array.group_count} × {one.formula}", source=source)

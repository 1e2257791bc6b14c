"""Common part of every engine of arrays: the mode that makes one of all drives of a host, and how that array is recognised.

An engine is three shell scripts (`ArrayEngine`). What a script makes is called `dutlab`, and undo takes away nothing that has another name.
How to put back is journalled before anything is made, and needs nothing but the drives' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut.mode import Check, OfRecord, Prober, UndoStep
from dutlab.errors import HostError, TestbedError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.drives import DriveSpec
from dutlab.spec.testbed import HostSpec, Testbed
from dutlab.systems.modes import SETS, ModeArray

SYNCS_S = 86_400.0
"""The longest that an array may be synchronised before it is measured."""
# `dev` finds a drive by the name that stays; `unused` says why one may not be written to.
# `moves` ends the script when the progress of a synchronisation has been the same for too long.
COMMON = r"""
still_s=120 was= since=
die() { echo "$1" >&2; exit 1; }
dev() {
  case $1 in
    serial=*) lsblk -dnpo PATH,SERIAL | while read -r path serial; do [ "$serial" != "${1#serial=}" ] || echo "$path"; done ;;
    *) readlink -f -- "$1" ;;
  esac
}
moves() {
  now=$(date +%s)
  if [ "$2" != "$was" ] || [ -z "$since" ]; then was=$2 since=$now; fi
  [ $((now - since)) -lt $still_s ] || die "array $1 has stood still for $still_s s: $2"
}
unused() {
  for member; do
    found=$(dev "$member")
    [ -b "$found" ] || die "$member is not there"
    [ -z "$(wipefs -n -p -- "$found" | grep -v '^#')" ] || die "$found has a signature: end its use, and erase it by hand (wipefs -a)"
    [ -z "$(lsblk -no MOUNTPOINTS -- "$found" | tr -d '[:space:]')" ] || die "$found is mounted"
    for by in "/sys/class/block/${found##*/}/holders/"*; do [ ! -e "$by" ] || die "${by##*/} is made of $found"; done
  done
}
"""


@dataclass(frozen=True)
class ArrayEngine:
    """Engine of arrays. Each script ends with 1 and says why where it cannot."""

    programs: tuple[Program, ...]
    undo: str
    """Takes away whatever of ours is on the members, which are its arguments."""
    apply: str
    """Its arguments: level, state, chunk in KiB, bitmap, stripe cache, threads, KiB/s of a rebuild, members; 0 leaves it to the engine."""
    state: str
    """A line a fact of the array: `path`, `size_bytes`, `kind file` of a file system, `dutlab_level`, `dutlab_drives`, …; then one of each
    set that can lose a drive: `set degraded sync_action`."""


@dataclass(frozen=True)
class ArrayState:
    """State of the array in the kernel."""

    path: str
    size_bytes: int
    facts: Mapping[str, str]
    sets: tuple[tuple[int, str], ...]
    """Missing drives of each set that can lose one, and the action: `idle`, `recover`, `resync`."""
    is_file: bool = False
    """It is a file of the file system that the drives make, which its mode takes away."""

    @property
    def words(self) -> str:
        """Words as a check found it."""
        lost = sum(degraded for degraded, _ in self.sets)
        doing = ", ".join(dict.fromkeys(action for _, action in self.sets)) or "no redundancy"
        level = "+".join(value for key, value in self.facts.items() if key.endswith("_level"))
        return f"{level}, {lost} of its drives missing or not rebuilt, {doing}"


async def told_by(engine: ArrayEngine, host: Host) -> ArrayState:
    """The array that a mode of this engine made on `host`. Raises CommandFailed when there is none, HostError."""
    facts, sets = dict[str, str](), list[tuple[int, str]]()
    for line in (await host.run(["sh", "-c", engine.state, "dutlab"])).text.splitlines():
        key, _, value = line.partition(" ")
        if key == "set":
            degraded, _, action = value.partition(" ")
            sets.append((int(degraded), action))
        else:
            facts[key] = value
    is_file = facts.pop("kind", "") == "file"
    return ArrayState(facts.pop("path"), int(facts["size_bytes"]), facts, tuple(sets), is_file)


@dataclass(frozen=True)
class ArrayMode(OfRecord):
    """One level in one state."""

    array: ModeArray
    engine: ArrayEngine

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Those of its engine."""
        return {"dut": list(self.engine.programs)}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Stops the array and erases from its members what says that they are of it."""
        argv = ("sh", "-c", self.engine.undo, "dutlab", *members_of(testbed.hosts[dut.name]))
        return [UndoStep(dut.name, argv, why=f"the drives of {dut.name} are in no array any more")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Makes it of all drives and waits until it is synchronised; then a member fails, or is rebuilt. Raises TestbedError, HostError."""
        host = testbed.hosts[dut.name]
        if protected := [drive.name for drive in host.drives.values() if not drive.destroy]:
            raise TestbedError(f"mode {self.name} writes to {protected[0]}, and the testbed does not say `destroy: yes` there")
        settings = host.array
        numbers = ((settings.chunk or 0) >> 10, settings.bitmap, settings.stripe_cache or 0, settings.group_threads or 0)
        rate = int((settings.rebuild_bytes_per_s or 0) / 1024)
        words = [self.array.level, self.array.state, *map(str, numbers), str(rate), *members_of(host)]
        done = await dut.run(["sh", "-c", self.engine.apply, "dutlab", *words], timeout_s=SYNCS_S, check=False)
        if done.status != 0:
            raise HostError(f"array {self.name} cannot be made: {done.complaint}", host=dut.name, remedy="see /proc/mdstat there")

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Return the kernel's state of it."""
        del prober
        return await self.checks_of_state(dut, testbed)

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Level, number of drives, and whether one is missing or being rebuilt; this shows a rebuild that ended within a trial."""
        array, status = self.array, await told_by(self.engine, dut)
        drives = len(testbed.hosts[dut.name].drives)
        if array.set_level:
            wanted = {"dutlab_level": "raid0", "dutlab_drives": str(SETS)}
            wanted |= {f"dutlab-{i}_{k}": v for i in (1, 2) for k, v in (("level", array.set_level), ("drives", str(drives // SETS)))}
        else:
            wanted = {"dutlab_level": array.level, "dutlab_drives": str(drives)}
        lost = sum(degraded for degraded, _ in status.sets)
        actions = {action for _, action in status.sets}
        states = {
            "": lost == 0 and actions <= {"idle"},
            "rebuilt": lost == 0 and actions <= {"idle"},
            "degraded": lost == 1 and actions <= {"idle"},
            "rebuilding": lost == 1 and "recover" in actions,
        }
        right = all(status.facts.get(k) == v for k, v in wanted.items())
        return [
            Check(f"an array of {drives} drives of level {array.level}", right, status.words),
            Check(f"it is {array.state or 'healthy'}", states[array.state], status.words),
        ]


def members_of(host: HostSpec) -> list[str]:
    """Its drives as `dev` of COMMON finds them."""
    return [_member(drive) for drive in host.drives.values()]


def _member(drive: DriveSpec) -> str:
    return f"{drive.folder}/{drive.by_id}" if drive.by_id is not None else f"serial={drive.serial}"

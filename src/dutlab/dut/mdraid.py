"""Family `mdraid`: one array of all drives of a host, made and failed by mdadm, and told by /sys/block/md*/md.

The array is called `dutlab`, its sets `dutlab-1` and `dutlab-2`: what has another name is never stopped, and a drive whose superblock
names another array is never erased. How to put back is journalled before anything is made, and needs nothing but the drives' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.dut.black_box import FAMILY as AS_FOUND
from dutlab.dut.mode import Check, Family, Prober, UndoStep
from dutlab.errors import HostError, TestbedError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.arrays import SETS, state_of
from dutlab.spec.drives import DriveSpec
from dutlab.spec.known import FAMILY_MODES, MDRAID
from dutlab.spec.testbed import HostSpec, Testbed

MDADM = Program("mdadm", "mdadm")
SYNCS_S = 86_400.0
"""The longest that an array may be synchronised before it is measured."""
# `dev` finds a drive by the name that stays; `md` an array by its own name, whatever number it got.
_FUNCTIONS = r"""
die() { echo "$1" >&2; exit 1; }
dev() {
  case $1 in
    serial=*) lsblk -dnpo PATH,SERIAL | while read -r path serial; do [ "$serial" != "${1#serial=}" ] || echo "$path"; done ;;
    *) readlink -f -- "$1" ;;
  esac
}
ours() { mdadm --examine --export "$1" 2>/dev/null | grep -Eq '^MD_NAME=([^:]*:)?dutlab(-[12])?$'; }
md() {
  for one in /sys/block/md*; do
    [ -e "$one/md/level" ] || continue
    mdadm --detail --export "/dev/${one##*/}" 2>/dev/null | grep -Eq "^MD_NAME=([^:]*:)?$1\$" && echo "/dev/${one##*/}"
  done
  return 0
}
stop() {
  for tries in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ -n "$(md "$1")" ] || return 0
    mdadm --stop "$(md "$1")" >/dev/null 2>&1 || sleep 0.5
  done
  die "array $1 cannot be stopped: $(mdadm --stop "$(md "$1")" 2>&1)"
}
away() {
  stop dutlab
  for name in dutlab-1 dutlab-2; do
    inner=$(md "$name")
    [ -z "$inner" ] || ! ours "$inner" || mdadm --zero-superblock "$inner"
    stop "$name"
  done
  for member; do
    found=$(dev "$member")
    if [ -b "$found" ] && ours "$found"; then mdadm --zero-superblock "$found" || die "$found: its superblock cannot be erased"; fi
  done
  rm -f /dev/md/dutlab /dev/md/dutlab-1 /dev/md/dutlab-2
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
quiet() {
  [ -e "$1/sync_action" ] || return 0
  while [ "$(cat "$1/sync_action")" != idle ]; do sleep 0.2; done
  [ "$(cat "$1/degraded")" = 0 ] || die "array $1 lacks a member, and nothing rebuilds it"
}
last() {
  case $1 in raid50|raid60) array=$(md dutlab-2) ;; *) array=$(md dutlab) ;; esac
  [ -n "$array" ] || die "the array is not there"
  at=/sys/block/${array##*/}/md
  shift
  for found; do lost=$(dev "$found"); done
}
lose() {
  mdadm "$array" --fail "$lost" >/dev/null 2>&1 || die "$lost cannot be failed"
  for tries in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    said=$(mdadm "$array" --remove "$lost" 2>&1) && return
    sleep 0.5
  done
  die "$lost cannot be removed: $said"
}
again() {
  mdadm --zero-superblock "$lost" || die "$lost: its superblock cannot be erased"
  if [ "$1" != 0 ]; then echo "$1" >"$at/sync_speed_max"; echo "$1" >"$at/sync_speed_min"; fi
  said=$(mdadm "$array" --add "$lost" 2>&1) || die "$lost cannot be added: $said"
  for tries in 1 2 3 4 5 6 7 8 9 10; do [ "$(cat "$at/sync_action")" = idle ] || break; sleep 0.1; done
}
"""
_UNDO = _FUNCTIONS + 'away "$@"\n'
# Its arguments: level, state, chunk in KiB, bitmap, stripe cache, threads, KiB/s of a rebuild, members. 0 leaves an option to md.
_APPLY = (
    _FUNCTIONS
    + r"""
level=$1 state=$2 chunk=$3 bitmap=$4 cache=$5 threads=$6 rate=$7
shift 7
away "$@"
unused "$@"
make() {
  name=$1 of=$2
  shift 2
  options="--level=$of --raid-devices=$#"
  [ "$chunk" = 0 ] || [ "$of" = 1 ] || options="$options --chunk=$chunk"
  [ "$of" = 0 ] || options="$options --bitmap=$bitmap"
  said=$(mdadm --create "/dev/md/$name" --run --homehost=any --metadata=1.2 $options "$@" 2>&1) || die "mdadm refuses: $said"
  at=/sys/block/$(basename "$(md "$name")")/md
  [ "$cache" = 0 ] || [ ! -e "$at/stripe_cache_size" ] || echo "$cache" >"$at/stripe_cache_size"
  [ "$threads" = 0 ] || [ ! -e "$at/group_thread_cnt" ] || echo "$threads" >"$at/group_thread_cnt"
  quiet "$at"
}
devices=""
for member; do devices="$devices $(dev "$member")"; done
set -- $devices
case $level in
  raid50|raid60)
    half=$(($# / 2)) count=0 first="" last=""
    for found; do count=$((count + 1)); if [ $count -le $half ]; then first="$first $found"; else last="$last $found"; fi; done
    make dutlab-1 "$(echo "${level#raid}" | cut -c1)" $first
    make dutlab-2 "$(echo "${level#raid}" | cut -c1)" $last
    make dutlab 0 "$(md dutlab-1)" "$(md dutlab-2)"
    ;;
  *) make dutlab "${level#raid}" "$@" ;;
esac
[ "$state" ] || exit 0
last "$level" $devices
lose
[ "$state" != degraded ] || exit 0
[ "$state" = rebuilding ] || rate=0
again "$rate"
[ "$state" != rebuilt ] || quiet "$at"
"""
)
# Each prints when it began and when it was done, in seconds since 1970. Arguments: level, KiB/s of a rebuild, members.
_LOSES = _FUNCTIONS + 'last "$@"; echo "$array"'
_LOSE = _FUNCTIONS + 'began=$(date +%s.%N); level=$1; shift 2; last "$level" "$@"; lose; echo "$began $(date +%s.%N)"'
_GIVE = _FUNCTIONS + 'began=$(date +%s.%N); level=$1 rate=$2; shift 2; last "$level" "$@"; again "$rate"; echo "$began $(date +%s.%N)"'
# Whatever became of it, all members are in the array again, and rebuilds are as fast as the kernel lets them be.
_HEAL = (
    _FUNCTIONS
    + r"""
level=$1; shift 2; last "$level" "$@"
echo system >"$at/sync_speed_min"; echo system >"$at/sync_speed_max"
if [ "$(cat "$at/degraded")" != 0 ] && [ "$(cat "$at/sync_action")" = idle ]; then
  mdadm --examine --export "$lost" 2>/dev/null | grep -q MD_ && mdadm "$array" --remove "$lost" >/dev/null 2>&1
  again 0
fi
quiet "$at"
"""
)
# One line a fact of the array, then one of each set that can lose a drive: `set degraded sync_action`.
_STATE = (
    _FUNCTIONS
    + r"""
array=$(md dutlab)
[ -n "$array" ] || die "there is no array called dutlab"
at=/sys/block/${array##*/}
echo "path $array"
echo "size_bytes $(($(cat "$at/size") * 512))"
for name in dutlab dutlab-1 dutlab-2; do
  one=$(md "$name")
  [ -n "$one" ] || continue
  in=/sys/block/${one##*/}/md
  echo "${name}_level $(cat "$in/level")"
  echo "${name}_drives $(cat "$in/raid_disks")"
  for fact in chunk_size component_size stripe_cache_size group_thread_cnt bitmap/location; do
    [ ! -e "$in/$fact" ] || echo "${name}_${fact%/*} $(cat "$in/$fact")"
  done
  [ ! -e "$in/sync_action" ] || echo "set $(cat "$in/degraded") $(cat "$in/sync_action")"
done
"""
)


@dataclass(frozen=True)
class ArrayState:
    """What the kernel says of the array."""

    path: str
    size_bytes: int
    facts: Mapping[str, str]
    sets: tuple[tuple[int, str], ...]
    """Of each set that can lose a drive, how many it lacks, and what is done about it: `idle`, `recover`, `resync`."""

    @property
    def words(self) -> str:
        """As a check found it."""
        lost = sum(degraded for degraded, _ in self.sets)
        doing = ", ".join(dict.fromkeys(action for _, action in self.sets)) or "no redundancy"
        level = "+".join(value for key, value in self.facts.items() if key.endswith("_level"))
        return f"{level}, {lost} of its drives missing or not rebuilt, {doing}"


async def array_of(host: Host) -> ArrayState:
    """The array that a mode made on `host`. Raises CommandFailed when there is none, HostError."""
    facts, sets = dict[str, str](), list[tuple[int, str]]()
    for line in (await host.run(["sh", "-c", _STATE, "dutlab"])).text.splitlines():
        key, _, value = line.partition(" ")
        if key == "set":
            degraded, _, action = value.partition(" ")
            sets.append((int(degraded), action))
        else:
            facts[key] = value
    return ArrayState(facts.pop("path"), int(facts["size_bytes"]), facts, tuple(sets))


@dataclass(frozen=True)
class Failing:
    """The last drive of a host's array, which can be lost and given back. Mode and host say which array it is."""

    dut: Host
    host: HostSpec
    mode: str

    async def lose(self) -> tuple[float, float]:
        """Fails and removes it; when that began and ended by the host's clock. Raises HostError."""
        return await self._told(_LOSE, "fails")

    async def give_back(self, bytes_per_s: float | None) -> tuple[float, float]:
        """Erased and added, so that it is rebuilt, no faster than that; when that began and ended. Raises HostError."""
        return await self._told(_GIVE, "comes back", bytes_per_s or self.host.array.rebuild_bytes_per_s)

    async def heal(self) -> None:
        """Back in the array, if it is not, and rebuilt. Raises HostError."""
        await self._told(_HEAL, "is rebuilt")

    async def path(self) -> str:
        """The device that loses it: the array, or the set of it. Raises HostError."""
        level, _ = state_of(self.mode)
        return (await self.dut.run(["sh", "-c", _LOSES, "dutlab", level, *_members(self.host)])).text.strip()

    async def _told(self, script: str, what: str, bytes_per_s: float | None = None) -> tuple[float, float]:
        level, _ = state_of(self.mode)
        argv = ["sh", "-c", script, "dutlab", level, str(int((bytes_per_s or 0) / 1024)), *_members(self.host)]
        done = await self.dut.run(argv, timeout_s=SYNCS_S, check=False)
        if done.status != 0:
            raise HostError(f"no drive of array {self.mode} {what}: {done.complaint}", host=self.dut.name, remedy="see /proc/mdstat there")
        began, _, ended = done.text.strip().partition(" ")
        return (float(began), float(ended)) if ended else (0.0, 0.0)


@dataclass(frozen=True)
class ArrayMode:
    """One level in one state."""

    name: str

    def needs(self) -> Mapping[str, Sequence[Program]]:
        """Mdadm."""
        return {"dut": [MDADM]}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Stops the array and erases the members' superblocks, if they are of it."""
        argv = ("sh", "-c", _UNDO, "dutlab", *_members(testbed.hosts[dut.name]))
        return [UndoStep(dut.name, argv, why=f"the drives of {dut.name} are in no array any more")]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Makes it of all drives and waits until it is synchronised; then a member fails, or is rebuilt. Raises TestbedError, HostError."""
        host, (level, state) = testbed.hosts[dut.name], state_of(self.name)
        if kept := [drive.name for drive in host.drives.values() if not drive.destroy]:
            raise TestbedError(f"mode {self.name} writes to {kept[0]}, and the testbed does not say `destroy: yes` there")
        made = host.array
        numbers = ((made.chunk or 0) >> 10, made.bitmap, made.stripe_cache or 0, made.group_threads or 0)
        rate = int((made.rebuild_bytes_per_s or 0) / 1024)
        words = [level, state, *map(str, numbers), str(rate), *_members(host)]
        done = await dut.run(["sh", "-c", _APPLY, "dutlab", *words], timeout_s=SYNCS_S, check=False)
        if done.status != 0:
            raise HostError(f"array {self.name} cannot be made: {done.complaint}", host=dut.name, remedy="see /proc/mdstat there")

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """What sysfs says of it."""
        del prober
        return await self.checks_of_state(dut, testbed)

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Level, number of drives, and whether one is missing or being rebuilt; a rebuild that ended within a trial is told by this."""
        (level, state), found = state_of(self.name), await array_of(dut)
        drives = len(testbed.hosts[dut.name].drives)
        if level in ("raid50", "raid60"):
            inner = level[:-1]
            wanted = {"dutlab_level": "raid0", "dutlab_drives": str(SETS)}
            wanted |= {f"dutlab-{i}_{k}": v for i in (1, 2) for k, v in (("level", inner), ("drives", str(drives // SETS)))}
        else:
            wanted = {"dutlab_level": level, "dutlab_drives": str(drives)}
        lost = sum(degraded for degraded, _ in found.sets)
        actions = {action for _, action in found.sets}
        states = {
            "": lost == 0 and actions <= {"idle"},
            "rebuilt": lost == 0 and actions <= {"idle"},
            "degraded": lost == 1 and actions <= {"idle"},
            "rebuilding": lost == 1 and "recover" in actions,
        }
        return [
            Check(f"an array of {drives} drives of level {level}", all(found.facts.get(k) == v for k, v in wanted.items()), found.words),
            Check(f"it is {state or 'healthy'}", states[state], found.words),
        ]


def _members(host: HostSpec) -> list[str]:
    return [_member(drive) for drive in host.drives.values()]


def _member(drive: DriveSpec) -> str:
    return f"{drive.folder}/{drive.by_id}" if drive.by_id is not None else f"serial={drive.serial}"


FAMILY = Family(MDRAID, {**AS_FOUND.modes, **{name: ArrayMode(name) for name in FAMILY_MODES[MDRAID] if state_of(name)[0]}})

"""Family `mdraid`: one array of all drives of a host, made and failed by mdadm, and read from /sys/block/md*/md.

The array is called `dutlab`, and its sets `dutlab-1` and `dutlab-2`. Arrays with other names are never stopped, and a drive whose
superblock names another array is never erased.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dutlab.dut import btrfs, lvm, zfs
from dutlab.dut.arrays import COMMON, SYNCS_S, ArrayEngine, ArrayMode, ArrayState, members_of, state_from_engine
from dutlab.dut.black_box import FAMILY as AS_FOUND
from dutlab.dut.mode import Family
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.spec.known import MDRAID
from dutlab.spec.testbed import HostSpec
from dutlab.systems.modes import ARRAYS, BTRFS, LVM, MD, ZFS, ModeArray

MDADM = Program("mdadm", "mdadm")
# `md` finds an array by its name, because its number may vary.
_FUNCTIONS = (
    COMMON
    + r"""
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
quiet() {
  [ -e "$1/sync_action" ] || return 0
  syncs=$(basename "$(dirname "$1")")
  while doing=$(cat "$1/sync_action") && [ "$doing" != idle ]; do
    moves "$syncs" "$doing $(grep -A3 "^$syncs :" /proc/mdstat | grep -o '[0-9]*/[0-9]*)' | tr -d ')')"
    sleep 0.2
  done
  [ "$(cat "$1/degraded")" = 0 ] || die "array $1 lacks a member, and is not rebuilt"
}
last() {
  case $1 in raid50|raid60) array=$(md dutlab-2) ;; *) array=$(md dutlab) ;; esac
  [ -n "$array" ] || die "the array does not exist"
  at=/sys/block/${array##*/}/md
  shift
  for found; do lost=$(dev "$found"); done
}
lose() {
  mdadm "$array" --fail "$lost" >/dev/null 2>&1 || die "$lost cannot be failed"
  for tries in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    output=$(mdadm "$array" --remove "$lost" 2>&1) && return
    sleep 0.5
  done
  die "$lost cannot be removed: $output"
}
again() {
  mdadm --zero-superblock "$lost" || die "$lost: its superblock cannot be erased"
  if [ "$1" != 0 ]; then echo "$1" >"$at/sync_speed_max"; echo "$1" >"$at/sync_speed_min"; fi
  output=$(mdadm "$array" --add "$lost" 2>&1) || die "$lost cannot be added: $output"
  for tries in 1 2 3 4 5 6 7 8 9 10; do [ "$(cat "$at/sync_action")" = idle ] || break; sleep 0.1; done
}
"""
)
_UNDO = _FUNCTIONS + 'away "$@"\n'
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
  output=$(mdadm --create "/dev/md/$name" --run --homehost=any --metadata=1.2 $options "$@" 2>&1) || die "mdadm refuses: $output"
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
# Each script prints its start and end, in seconds since 1970. Arguments: level, KiB/s of a rebuild, members.
_LOSES = _FUNCTIONS + 'last "$@"; echo "$array"'
_LOSE = _FUNCTIONS + 'began=$(date +%s.%N); level=$1; shift 2; last "$level" "$@"; lose; echo "$began $(date +%s.%N)"'
_GIVE = _FUNCTIONS + 'began=$(date +%s.%N); level=$1 rate=$2; shift 2; last "$level" "$@"; again "$rate"; echo "$began $(date +%s.%N)"'
# Afterwards all members are in the array, and the kernel's default limits of rebuild speed apply.
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


ENGINES: Mapping[str, ArrayEngine] = {
    MD: ArrayEngine((MDADM,), _UNDO, _APPLY, _STATE),
    LVM: lvm.ENGINE,
    BTRFS: btrfs.ENGINE,
    ZFS: zfs.ENGINE,
}
"""Engine by name."""


async def array_of(host: Host, array: ModeArray) -> ArrayState:
    """Return the state of the array that a mode made on `host`. Raises CommandFailed when there is none, HostError."""
    return await state_from_engine(ENGINES[array.engine], host)


@dataclass(frozen=True)
class Failing:
    """Last drive of a host's array, which can be failed and added again."""

    dut: Host
    host: HostSpec
    array: ModeArray

    async def lose(self) -> tuple[float, float]:
        """Fail and remove the drive; return start and end by the host's clock. Raises HostError."""
        return await self._told(_LOSE, "fails")

    async def give_back(self, bytes_per_s: float | None) -> tuple[float, float]:
        """Erase and add the drive, with at most `bytes_per_s` of rebuild; return start and end by the host's clock. Raises HostError."""
        return await self._told(_GIVE, "comes back", bytes_per_s or self.host.array.rebuild_bytes_per_s)

    async def heal(self) -> None:
        """Add the drive if it is missing, and wait until it is rebuilt. Raises HostError."""
        await self._told(_HEAL, "is rebuilt")

    async def path(self) -> str:
        """Return the device that loses the drive: the array, or one of its sets. Raises HostError."""
        return (await self.dut.run(["sh", "-c", _LOSES, "dutlab", self.array.level, *members_of(self.host)])).text.strip()

    async def _told(self, script: str, what: str, bytes_per_s: float | None = None) -> tuple[float, float]:
        argv = ["sh", "-c", script, "dutlab", self.array.level, str(int((bytes_per_s or 0) / 1024)), *members_of(self.host)]
        done = await self.dut.run(argv, timeout_s=SYNCS_S, check=False)
        if done.status != 0:
            message = f"no drive of array {self.array.level} {what}: {done.complaint}"
            raise HostError(message, host=self.dut.name, remedy="see /proc/mdstat there")
        began, _, ended = done.text.strip().partition(" ")
        return (float(began), float(ended)) if ended else (0.0, 0.0)


FAMILY = Family(
    MDRAID,
    {**AS_FOUND.modes, **{mode.name: ArrayMode(mode, mode.array, ENGINES[mode.array.engine]) for mode in ARRAYS if mode.array}},
)

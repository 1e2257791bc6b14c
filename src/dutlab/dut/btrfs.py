"""Arrays of btrfs: a file system `dutlab-array` of all drives, with a file that fills half of it, because btrfs makes no block device.

The file is written before a drive is lost, so its data is on all drives. A drive is lost by erasing its superblock while the file system is
not mounted; the same drive then replaces it (btrfs-replace(8)).
"""

from __future__ import annotations

from dutlab.dut.arrays import COMMON, ArrayEngine
from dutlab.hosts.programs import Program

_FUNCTIONS = (
    COMMON
    + r"""
place=/run/dutlab-array
ours() { [ "$(blkid -p -o value -s LABEL -- "$1" 2>/dev/null)" = dutlab-array ]; }
insist() { output=$("$@" 2>&1) || die "$1 refuses: $output"; }
away() {
  for tries in 1 2 3 4 5 6 7 8 9 10; do
    mountpoint -q "$place" || break
    umount "$place" 2>/dev/null || sleep 0.5
  done
  ! mountpoint -q "$place" || die "$place cannot be unmounted: $(umount "$place" 2>&1)"
  for member; do
    found=$(dev "$member")
    if [ -b "$found" ] && ours "$found"; then
      btrfs device scan --forget "$found" >/dev/null 2>&1
      wipefs -a -q -f "$found" || die "$found: its superblock cannot be erased"
    fi
  done
  if [ -d "$place" ]; then rmdir "$place"; fi
}
attach() {
  options=$1
  shift
  for found; do btrfs device scan "$found" >/dev/null 2>&1; done
  insist mount -t btrfs -o "$options" "$1" "$place"
}
lose() {
  insist umount "$place"
  for found; do lost=$found; btrfs device scan --forget "$found" >/dev/null 2>&1; done
  wipefs -a -q -f "$lost" || die "$lost: its superblock cannot be erased"
  devices=""
  for found; do [ "$found" = "$lost" ] || devices="$devices $found"; done
  attach noatime,degraded $devices
}
"""
)
ENGINE = ArrayEngine(
    (Program("mkfs.btrfs", "btrfs-progs"), Program("btrfs", "btrfs-progs"), Program("mountpoint", "util-linux")),
    _FUNCTIONS + 'away "$@"\n',
    _FUNCTIONS
    + r"""
level=$1 state=$2
shift 7
away "$@"
unused "$@"
devices=""
for member; do devices="$devices $(dev "$member")"; done
set -- $devices
count=$#
mkdir -m 700 "$place" || die "$place cannot be made"
insist mkfs.btrfs -q -f -L dutlab-array -d "$level" -m "$level" "$@"
attach noatime "$@"
free=$(df -B1048576 --output=avail "$place" | tail -n 1)
insist dd if=/dev/zero of="$place/array" bs=1M count=$((free / 2)) conv=fsync
[ "$state" ] || exit 0
lose "$@"
[ "$state" != degraded ] || exit 0
insist btrfs replace start -B -f "$count" "$lost" "$place"
""",
    _FUNCTIONS
    + r"""
mountpoint -q "$place" && [ -f "$place/array" ] || die "there is no file $place/array"
echo "path $place/array"
echo "kind file"
echo "size_bytes $(stat -c %s "$place/array")"
device=$(findmnt -no SOURCE "$place")
id=$(blkid -p -o value -s UUID -- "$device")
lost=0 count=0
for one in "/sys/fs/btrfs/$id/devinfo/"*/missing; do count=$((count + 1)); lost=$((lost + $(cat "$one"))); done
profile=$(btrfs filesystem df "$place" | sed -n 's/^Data, \([^:]*\):.*/\1/p' | tr '[:upper:]' '[:lower:]' | sort -u | tr '\n' '+')
echo "dutlab_level ${profile%+}"
echo "dutlab_drives $count"
echo "dutlab_useful_bytes $(df -B1 --output=size "$place" | tail -n 1)"
echo "dutlab_btrfs_version $(btrfs --version | cut -d v -f 2)"
doing=idle
[ "$(btrfs replace status -1 "$place" | grep -c 'done')" = 0 ] || doing=recover
echo "set $lost $doing"
""",
)
"""btrfs ignores some arguments of `apply`: its stripe is 64 KiB, and the speed of a replacement cannot be set."""

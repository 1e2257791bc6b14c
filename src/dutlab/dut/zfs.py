"""Arrays of ZFS: a pool `dutlab` of all drives, with a volume `dutlab/array` on half of its space (zpool(8), zfs(8), zfsconcepts(7)).

The volume's data are not cached by ZFS (`primarycache=metadata`), because direct I/O on a volume does not bypass its cache. The whole
volume is written before a drive is removed, because a resilver copies only written data.
"""

from __future__ import annotations

from dutlab.dut.arrays import COMMON, ArrayEngine
from dutlab.hosts.programs import Program

_FUNCTIONS = (
    COMMON
    + r"""
insist() { output=$("$@" 2>&1) || die "$1 refuses: $output"; }
made() { zpool list -H -o name dutlab >/dev/null 2>&1; }
away() {
  made || return 0
  mine=""
  for member; do
    found=$(dev "$member")
    if zpool status -LP dutlab | grep -Eq "[[:space:]]$found(p?[0-9]+)?[[:space:]]"; then mine="$mine $found"; fi
  done
  [ "$mine" ] || return 0
  insist zpool destroy -f dutlab
  for found in $mine; do wipefs -a -q -f "$found" || die "$found: its labels cannot be erased"; done
}
resilvers() { zpool status dutlab | grep -q 'resilver in progress'; }
"""
)
ENGINE = ArrayEngine(
    (Program("zpool", "zfsutils-linux"), Program("zfs", "zfsutils-linux")),
    _FUNCTIONS + 'away "$@"\n',
    _FUNCTIONS
    + r"""
level=$1 state=$2
shift 7
away "$@"
unused "$@"
devices=""
for member; do lost=$(dev "$member"); devices="$devices $lost"; done
set -- $devices
shape=$level
[ "$level" != stripe ] || shape=""
insist zpool create -m none -o autotrim=off -O primarycache=metadata -O compression=off dutlab $shape "$@"
free=$(zfs get -Hp -o value available dutlab)
insist zfs create -s -V $((free / 2 / 1048576))M dutlab/array
for tries in 1 2 3 4 5 6 7 8 9 10; do [ ! -b /dev/zvol/dutlab/array ] || break; sleep 0.5; done
[ -b /dev/zvol/dutlab/array ] || die "/dev/zvol/dutlab/array does not appear"
insist dd if=/dev/zero of=/dev/zvol/dutlab/array bs=1M count=$((free / 2 / 1048576)) conv=fsync
[ "$state" ] || exit 0
insist zpool offline dutlab "$lost"
[ "$state" != degraded ] || exit 0
zpool labelclear -f "$lost" >/dev/null 2>&1
insist zpool replace -f dutlab "$lost"
[ "$state" != rebuilt ] || while resilvers; do sleep 0.5; done
""",
    _FUNCTIONS
    + r"""
made || die "there is no pool called dutlab"
echo "path $(readlink -f /dev/zvol/dutlab/array)"
echo "size_bytes $(zfs get -Hp -o value volsize dutlab/array)"
status=$(zpool status -LP dutlab)
level=$(printf '%s\n' "$status" | sed -n 's/^[[:space:]]*\(mirror\|raidz[123]\)-[0-9].*/\1/p' | head -n 1)
drives=$(printf '%s\n' "$status" | grep -c '^[[:space:]]*/dev/')
whole=$(printf '%s\n' "$status" | grep -c '^[[:space:]]*/dev/[^ ]* *ONLINE')
echo "dutlab_level ${level:-stripe}"
echo "dutlab_drives $drives"
echo "dutlab_useful_bytes $(zfs get -Hp -o value available dutlab)"
echo "dutlab_volblocksize $(zfs get -Hp -o value volblocksize dutlab/array)"
echo "dutlab_zfs_version $(cat /sys/module/zfs/version)"
doing=idle
! resilvers || doing=recover
[ "$level" ] || exit 0
[ "$doing" = idle ] || [ "$whole" -lt "$drives" ] || whole=$((drives - 1))
echo "set $((drives - whole)) $doing"
""",
)
"""ZFS ignores some arguments of `apply`: it has no fixed stripe width, and its resilver speed cannot be set."""

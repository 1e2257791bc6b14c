"""Arrays of LVM: a logical volume `dutlab/array` of type raid0, raid1, raid5 or raid6 (lvmraid(7)), read from lvs and dm-raid's table.

A drive is lost by erasing its label while the volume is inactive, because LVM has no command that fails a drive. It then becomes a new
physical volume, and `lvconvert --repair` puts it in the place of the missing one.
"""

from __future__ import annotations

from dutlab.dut.arrays import COMMON, ArrayEngine
from dutlab.hosts.programs import Program

# Without udev, LVM makes the device nodes itself. `raid` prints dm-raid's health character of each drive (A in sync, a not yet, D dead) and
# its current action, after the fields `start length raid level count` (Documentation/admin-guide/device-mapper/dm-raid.rst).
_FUNCTIONS = (
    COMMON
    + r"""
settings='backup{backup=0 archive=0} activation{monitoring=0} devices{use_devicesfile=0}'
if [ ! -S /run/udev/control ]; then
  settings="$settings activation{udev_sync=0 udev_rules=0 verify_udev_operations=0}"
  settings="$settings devices{obtain_device_list_from_udev=0 external_device_info_source=\"none\"}"
fi
lv() { command=$1; shift; lvm "$command" --config "$settings" "$@"; }
must() { output=$(lv "$@" 2>&1) || die "lvm refuses $1: $output"; }
ours() { lv pvs --noheadings -o vg_name "$1" 2>/dev/null | grep -qw dutlab; }
raid() { dmsetup status dutlab-array | cut -d ' ' -f 6,8; }
away() {
  mine=""
  for member; do
    found=$(dev "$member")
    if [ -b "$found" ] && ours "$found"; then mine="$mine $found"; fi
  done
  [ "$mine" ] || return 0
  lv vgreduce --removemissing --force dutlab >/dev/null 2>&1
  output=$(lv vgremove -ff -y dutlab 2>&1) || die "volume group dutlab cannot be removed: $output"
  must pvremove -ff -y $mine
}
quiet() {
  [ "$level" != raid0 ] || return 0
  while doing=$(dmsetup status dutlab-array | cut -d ' ' -f 7,8) && [ "${doing#* }" != idle ]; do
    moves dutlab/array "$doing"
    sleep 0.2
  done
}
lose() {
  must lvchange -y -an dutlab/array
  wipefs -a -q -f "$lost" || die "$lost: its label cannot be erased"
  must vgchange -y --activationmode degraded -ay dutlab
}
again() {
  must pvcreate -y "$lost"
  must vgextend dutlab "$lost"
  [ "$1" = 0 ] || must lvchange -y --maxrecoveryrate "$1k" dutlab/array
  must lvconvert -y --repair dutlab/array
  must vgreduce --removemissing dutlab
}
"""
)
ENGINE = ArrayEngine(
    (Program("lvm", "lvm2"), Program("dmsetup", "dmsetup")),
    _FUNCTIONS + 'away "$@"\n',
    _FUNCTIONS
    + r"""
level=$1 state=$2 chunk=$3 rate=$7
shift 7
away "$@"
unused "$@"
devices=""
for member; do lost=$(dev "$member"); devices="$devices $lost"; done
set -- $devices
must vgcreate -y dutlab "$@"
case $level in
  raid0) shape="--type raid0 --stripes $#" ;;
  raid1) shape="--type raid1 --mirrors $(($# - 1))" ;;
  raid10) shape="--type raid10 --mirrors 1 --stripes $(($# / 2))" ;;
  raid5) shape="--type raid5 --stripes $(($# - 1))" ;;
  raid6) shape="--type raid6 --stripes $(($# - 2))" ;;
esac
[ "$chunk" = 0 ] || [ "$level" = raid1 ] || shape="$shape --stripesize ${chunk}k"
must lvcreate -y -Wn -Zn -n array -l 100%FREE $shape dutlab
quiet
case $state in
  degraded) lose ;;
  rebuilding) lose; again "$rate" ;;
  rebuilt) lose; again 0; quiet ;;
esac
""",
    _FUNCTIONS
    + r"""
array=/dev/dutlab/array
[ -b "$array" ] || die "there is no volume dutlab/array"
echo "path $(readlink -f "$array")"
echo "size_bytes $(blockdev --getsize64 "$array")"
set -- $(lv lvs --noheadings --nosuffix --units b -o segtype,stripes,stripe_size dutlab/array 2>/dev/null)
echo "dutlab_level ${1%%_*}"
echo "dutlab_drives $2"
[ "${3:-0}" = 0 ] || echo "dutlab_chunk_size $3"
lv version | while read -r name which version _; do [ "$name $which" != "LVM version:" ] || echo "dutlab_lvm_version $version"; done
[ "${1%%_*}" != raid0 ] || exit 0
set -- $(raid)
echo "set $(printf %s "$1" | tr -d A | wc -c) $2"
""",
)
"""LVM ignores some arguments of `apply`: only md has bitmap, stripe cache and threads."""

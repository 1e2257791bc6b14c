#!/bin/sh
# l3fwd.sh FOLDER: builds DPDK's l3fwd as FOLDER/dpdk-l3fwd, for the modes l3fwd-lpm and l3fwd-fib, from the sources that Debian packages:
# apt install dpdk-doc libdpdk-dev make gcc pkg-config
set -eu
if [ $# != 1 ] || [ ! -d "$1" ]; then echo "usage: $0 FOLDER; FOLDER must exist and be in PATH, as /usr/local/bin" >&2; exit 2; fi
sources=/usr/share/dpdk/examples
[ -d $sources/l3fwd ] || { echo "$0: there are no sources in $sources: apt install dpdk-doc" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r $sources/l3fwd $sources/common "$work"
# l3fwd asks each port to check checksums. A packet socket cannot, and DPDK refuses the port.
sed -i 's/RTE_ETH_RX_OFFLOAD_CHECKSUM/0/' "$work/l3fwd/main.c"
make -C "$work/l3fwd" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
install "$work/l3fwd/build/l3fwd" "$1/dpdk-l3fwd"

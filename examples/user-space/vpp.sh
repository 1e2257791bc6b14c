#!/bin/sh
# vpp.sh up|down: VPP as a router between two ports of a network namespace, for vpp.yaml. Needs root, and vpp and vppctl in PATH.
# up makes the namespaces vpp-source, vpp-dut and vpp-sink, joins them by veth pairs, and starts VPP; down ends it and removes them.
set -eu
run=/run/vpp
case "${1:-}" in
up)
  [ ! -e $run/cli.sock ] || { echo "$0: $run/cli.sock exists: a VPP runs, or did not end; end it first" >&2; exit 1; }
  for name in source dut sink; do ip netns add vpp-$name && ip -n vpp-$name link set lo up; done
  ip link add in-a netns vpp-dut type veth peer name out-a netns vpp-source
  ip link add out-a netns vpp-dut type veth peer name in-a netns vpp-sink
  # A packet socket gets no checksums that a card would have computed, and no packets that GRO has merged.
  for port in source:out-a dut:in-a dut:out-a sink:in-a; do
    ip netns exec "vpp-${port%:*}" ethtool -K "${port#*:}" tx off tso off gso off >/dev/null
    ip -n "vpp-${port%:*}" link set "${port#*:}" addrgenmode none up
  done
  ip -n vpp-source address add 172.16.0.2/24 dev out-a
  ip -n vpp-source route add 172.16.10.0/24 via 172.16.0.1
  ip -n vpp-sink address add 172.16.10.2/24 dev in-a
  ip -n vpp-sink route add 172.16.0.0/24 via 172.16.10.1
  mkdir -p $run
  # Without huge pages; no core is pinned.
  cat >$run/dutlab.conf <<CONF
unix { nodaemon nosyslog log $run/dutlab.log cli-listen $run/cli.sock runtime-dir $run pidfile $run/vpp.pid }
memory { main-heap-size 512M main-heap-page-size 4k default-hugepage-size 4k }
buffers { buffers-per-numa 16384 page-size 4k }
plugins { plugin dpdk_plugin.so { disable } }
CONF
  ip netns exec vpp-dut setsid vpp -c $run/dutlab.conf >$run/dutlab.out 2>&1 &
  tries=0
  until vppctl show version 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { tail -n 5 $run/dutlab.out >&2; exit 1; }
    sleep 0.2
  done
  for port in in-a out-a; do
    vppctl create host-interface name $port cksum-gso-disable  # the port's own checksum offload is off
    vppctl set interface state host-$port up
  done
  vppctl set interface ip address host-in-a 172.16.0.1/24
  vppctl set interface ip address host-out-a 172.16.10.1/24
  ;;
down)
  if pid=$(cat $run/vpp.pid 2>/dev/null); then
    kill "$pid" 2>/dev/null || true
    tries=0
    while kill -0 "$pid" 2>/dev/null; do
      tries=$((tries + 1))
      [ $tries -lt 50 ] || kill -9 "$pid" || true
      sleep 0.1
    done
  fi
  rm -f $run/cli.sock $run/vpp.pid $run/dutlab.conf $run/dutlab.log $run/dutlab.out
  for name in source dut sink; do ip netns delete vpp-$name 2>/dev/null || true; done
  ;;
*)
  echo "usage: $0 up|down" >&2
  exit 2
  ;;
esac

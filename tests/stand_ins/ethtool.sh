#!/bin/sh
# ethtool of a card: its state is a file of `name value` for each of -k, -g, -l, -c; a feature `fixed` it refuses, and -G, -L and -C refuse no change.
state=$ROOT/ethtool$(echo "$1" | tr KGLC kglc)
case $1 in
  -k) sed 's/ /: /' "$state";;
  -g | -l) printf 'Ring parameters for %s:\nPre-set maximums:\nRX:\t\t4096\nTX:\t\t4096\nCurrent hardware settings:\n' "$2"
      sed 's/^rx /RX:\t\t/; s/^tx /TX:\t\t/' "$state";;
  -c) printf 'Coalesce parameters for %s:\nAdaptive RX: %s  TX: n/a\n' "$2" "$(sed -n 's/^adaptive-rx //p' "$state")"
      sed -n 's/ /:\t/; /usecs/p' "$state";;
  *) long=$3; case $3 in gro) long=generic-receive-offload;; tso) long=tcp-segmentation-offload;; sg) long=scatter-gather;; lro) long=large-receive-offload;; esac
     was=$(sed -n "s/^$long //p" "$state")
     case $was in *fixed*) echo "Could not change any device features"; exit 1;; esac
     [ "$1" = -K ] || [ "$was" != "$4" ] || { echo "no parameters changed, aborting"; exit 80; }
     sed -i "s/^$long .*/$long $4/" "$state"
     if [ "$long $4" = "scatter-gather off" ]; then sed -i 's/^tcp-segmentation-offload .*/tcp-segmentation-offload off/' "$state"; fi;;
esac

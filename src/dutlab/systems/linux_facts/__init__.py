"""Facts of Linux: questions about machine, cards, drives and neighbours, and the facts in the answers. Pure: text in, facts out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.systems.facts import Answers, FactTree, Question
from dutlab.systems.linux_facts import card, drives, firewall, machine, neighbours

WORDS = r"""
slurp() {  # FILE: one under /sys or /proc/sys has one line, which takes no program to read
  [ -e "$1" ] || { echo 'no such file on this kernel' >&2; return 1; }
  case $1 in */sys/*) IFS= read -r line 2>/dev/null <"$1" && { printf '%s\n' "$line"; return; } ;; esac
  cat -- "$1" 2>/dev/null || { echo 'cannot be read' >&2; return 1; }
}
every() (  # FOLDER PATTERN: content of the matching files, each text once
  cd -- "$1" 2>/dev/null && cat -- $2 2>/dev/null | sort -u | grep . || { echo 'no such file on this kernel' >&2; exit 1; }
)
lines() (  # FOLDER PATTERN: name:text of each file that matches
  cd -- "$1" 2>/dev/null && grep -H . $2 2>/dev/null || { echo 'no such file on this kernel' >&2; exit 1; }
)
device() {  # ROOT INTERFACE: where its device is
  [ -e "$1/sys/class/net/$2/device" ] || { echo 'no device' >&2; return 1; }
  readlink -f "$1/sys/class/net/$2/device"
}
pcie() {  # ROOT INTERFACE: every PCI device from the card up to the root, the card first
  at=$(device "$1" "$2") || return 1
  way "$1" "$at"
}
way() {  # ROOT DEVICE
  at=$2
  while [ -n "$at" ] && [ "$at" != "$1/sys" ]; do
    if [ -e "$at/vendor" ] && [ -e "$at/class" ]; then
      echo "device ${at##*/}"
      for file in current_link_speed current_link_width max_link_speed max_link_width; do
        [ -e "$at/$file" ] && echo "$file $(cat "$at/$file" 2>/dev/null)"
      done
      echo "config $(od -An -v -tx1 -N 256 "$at/config" 2>/dev/null | tr -d ' \n')"
    fi
    at=${at%/*}
  done
}
every_drive() {  # ROOT: those that are whole drives, and hold something
  [ -d "$1/sys/block" ] || { echo 'no such folder on this kernel' >&2; return 1; }
  for at in "$1"/sys/block/*; do
    case ${at##*/} in ram*|zram*|dm-*|md*|sr*|fd*|nbd*) continue ;; loop*) [ -e "$at/loop/backing_file" ] || continue ;; esac
    [ "$(cat "$at/size" 2>/dev/null)" -gt 0 ] 2>/dev/null && echo "${at##*/}"
  done
  return 0
}
drives() {  # ROOT: files of each drive, and its path to the processor; behind several controllers the path of the first
  names=$(every_drive "$1") || return 1
  for drive in $names; do
    of=$1/sys/block/$drive
    echo "drive $drive"
    (cd -- "$of" && for file in size serial device/model device/vendor device/serial device/firmware_rev device/rev device/numa_node \
      queue/logical_block_size queue/physical_block_size queue/nr_requests queue/max_sectors_kb queue/read_ahead_kb queue/io_poll \
      queue/rotational queue/scheduler queue/write_cache; do
      read -r line <"$file" && [ -n "$line" ] && echo "$file $line"
    done) 2>/dev/null
    [ -d "$of/mq" ] && echo "queues $(ls "$of/mq" | wc -l)"
    [ -e "$of/loop/backing_file" ] && echo "backing_file $(cat "$of/loop/backing_file")"
    on=$of/device
    for control in "$of"/device/nvme[0-9]*; do
      case ${control##*/} in *n[0-9]*) ;; *) [ -e "$control/transport" ] && on=$control && break ;; esac
    done
    for heat in "$on"/hwmon*/temp1_input "$on"/hwmon/hwmon*/temp1_input; do
      [ -e "$heat" ] && echo "temperature $(cat "$heat" 2>/dev/null)" && break
    done
    [ -e "$on" ] && way "$1" "$(readlink -f "$on")"
  done
  return 0
}
smart() {  # ROOT: health report of each drive, or the reason for none; a sleeping drive is not woken
  names=$(every_drive "$1") || return 1
  for drive in $names; do
    case $drive in
      nvme*) echo "smart $drive"
        if command -v nvme >/dev/null; then asroot nvme smart-log "/dev/$drive" -o json 2>&1
        else asroot smartctl --json -n standby -i -A "/dev/$drive" 2>&1; fi ;;
      sd*) echo "smart $drive"; asroot smartctl --json -n standby -i -A "/dev/$drive" 2>&1 ;;
    esac
  done
  return 0
}
irqs() {  # ROOT INTERFACE: number, allowed cores, actual cores, name from the driver
  at=$(device "$1" "$2") || return 1
  while [ -n "$at" ] && [ ! -d "$at/msi_irqs" ]; do at=${at%/*}; done
  [ -n "$at" ] || { echo 'no message-signalled interrupts' >&2; return 1; }
  for irq in "$at"/msi_irqs/*; do
    of=$1/proc/irq/${irq##*/}; [ -d "$of" ] || continue
    name=; for action in "$of"/*/; do [ -d "$action" ] && name=${action%/} && name=${name##*/}; done
    may=$(cat "$of/smp_affinity_list" 2>/dev/null); now=$(cat "$of/effective_affinity_list" 2>/dev/null)
    echo "${irq##*/} ${may:--} ${now:--} ${name:--}"
  done
}
"""
"""Functions of sh for the questions, in addition to those of hosts/facts.py."""


def questions(names: Sequence[str], root: str, *, of_drives: bool) -> Iterator[Question]:
    """Yield the questions, for the interfaces `names`; `root` is the folder that contains the host's /sys, /proc and /etc."""
    yield from machine.questions(root)
    yield from firewall.questions(root)
    for name in names:
        yield from card.questions(name, root)
    yield from neighbours.questions(names)
    if of_drives:
        yield from drives.questions(root)


def put(facts: FactTree, answers: Answers, names: Sequence[str], root: str, *, of_drives: bool) -> None:
    """Store every answer in the tree, under the names that the facts of all systems have."""
    machine.put(facts, answers, root)
    firewall.put(facts, answers, root)
    for name in names:
        card.put(facts, answers, name, root)
    neighbours.put(facts, answers, names)
    if of_drives:
        drives.put(facts, answers, root)

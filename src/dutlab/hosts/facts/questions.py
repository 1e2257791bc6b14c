"""Many questions to a host in one command: POSIX sh is all it needs, and a round trip is paid once."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dutlab.hosts.host import Host
from dutlab.systems.facts import Answers, Question

_ANSWER, _REFUSED = "\x1e", "\x1f"
LONGEST_WAIT_S = 60.0
_LONGEST_WHY = 200

# What is refused is asked a second time for its reason only, so that warnings never become part of an answer.
_SCRIPT = r"""
LC_ALL=C NO_COLOR=1 PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export LC_ALL NO_COLOR PATH
answer() {
  printf '\036%s\n' "$1"; shift
  if said=$("$@" 2>/dev/null </dev/null); then printf '%s' "$said"
  else printf '\037%s' "$("$@" 2>&1 >/dev/null </dev/null)"; fi
}
slurp() {
  [ -e "$1" ] || { echo 'no such file on this kernel' >&2; return 1; }
  cat -- "$1" 2>/dev/null || { echo 'cannot be read' >&2; return 1; }
}
asroot() {  # as root where a way is given: these answer others too, but not whole
  [ "$(id -u)" != 0 ] && for way in doas sudo; do
    "$way" -n true 2>/dev/null && { "$way" -n "$@"; return; }
  done
  "$@"
}
every() (  # FOLDER PATTERN: what the files that match hold, each text once
  cd -- "$1" 2>/dev/null && cat -- $2 2>/dev/null | sort -u | grep . || { echo 'no such file on this kernel' >&2; exit 1; }
)
lines() (  # FOLDER PATTERN: name:text of each file that matches
  cd -- "$1" 2>/dev/null && grep -H . $2 2>/dev/null || { echo 'no such file on this kernel' >&2; exit 1; }
)
device() {  # ROOT INTERFACE: where its device is
  [ -e "$1/sys/class/net/$2/device" ] || { echo 'no device of its own' >&2; return 1; }
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
every_drive() {  # ROOT: those that are drives of their own, and hold something
  [ -d "$1/sys/block" ] || { echo 'no such folder on this kernel' >&2; return 1; }
  for at in "$1"/sys/block/*; do
    case ${at##*/} in ram*|zram*|dm-*|md*|sr*|fd*|nbd*) continue ;; loop*) [ -e "$at/loop/backing_file" ] || continue ;; esac
    [ "$(cat "$at/size" 2>/dev/null)" -gt 0 ] 2>/dev/null && echo "${at##*/}"
  done
  return 0
}
drives() {  # ROOT: what the files of each say, and its way to the processor; behind several controllers that of the first
  names=$(every_drive "$1") || return 1
  for drive in $names; do
    of=$1/sys/block/$drive
    echo "drive $drive"
    (cd -- "$of" && for file in size serial device/model device/vendor device/serial device/firmware_rev device/rev device/numa_node \
      queue/logical_block_size queue/physical_block_size queue/nr_requests queue/max_sectors_kb queue/read_ahead_kb queue/io_poll \
      queue/rotational queue/scheduler queue/write_cache; do
      read -r said <"$file" && [ -n "$said" ] && echo "$file $said"
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
smart() {  # ROOT: what each says of its health, or why it does not; a sleeping one is left asleep
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
optic() {  # INTERFACE: what its transceiver says, in this system's words
  case $(uname -s) in FreeBSD) asroot ifconfig -vvv "$1" ;; OpenBSD) asroot ifconfig "$1" sff ;; *) ethtool -m "$1" ;; esac
}
irqs() {  # ROOT INTERFACE: number, cores it may go to, cores it goes to, what the driver calls it
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


async def ask(host: Host, questions: Sequence[Question]) -> Answers:
    """All answers, in the order of the questions. Raises HostError when the host is gone."""
    asked = [f"answer {n} {shlex.join(question)}" for n, question in enumerate(questions)]
    done = await host.run(["sh", "-s"], stdin="\n".join([_SCRIPT, *asked, "exit 0", ""]).encode(), timeout_s=LONGEST_WAIT_S, check=False)
    found: dict[Question, tuple[str | None, str]] = {}
    for part in done.text.split(_ANSWER)[1:]:
        number, _, body = part.partition("\n")
        text, refused, why = body.partition(_REFUSED)
        if number.isdigit() and int(number) < len(questions):
            question = questions[int(number)]
            found[question] = (None, _last_line(why) or f"`{question[0]}` failed") if refused else (text.strip(), "")
    return Answers(found, _last_line(done.errors) or "the host's sh did not answer")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[-_LONGEST_WHY:] if lines else ""

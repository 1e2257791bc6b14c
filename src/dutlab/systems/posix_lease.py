"""Shell script that holds a lease on a host (hosts/lease.py), for any POSIX system."""

from __future__ import annotations

ROOTS, SHARED = "/var/run", "/var/tmp"  # noqa: S108 -- files of other users there are checked, never followed
"""Folders for the lease file: root's folder if the login may write there, else the folder of all users. The script checks both."""
LEAF = "dutlab-lease-"
"""Prefix of the file name. The number of the network namespace follows, since two namespaces with one file system are two hosts.

Without /proc the number is empty.
"""
_BLOCK = 32768
# A lease is a regular file, not a link; `dd` reads only one block of it. Other users may put a link, a pipe or a folder into the shared
# folder: the script neither opens nor replaces these. mktemp(1) creates its file exclusively, with an unpredictable name. If a folder
# appears at the path, `ln` puts the file into it, so the script compares the result afterwards.
SCRIPT = rf"""
leaf={LEAF}$(readlink /proc/self/ns/net 2>/dev/null | tr -dc 0-9); roots={ROOTS}/$leaf shared={SHARED}/$leaf
at=$shared
case $(ls -ldn -- {ROOTS}/) in d????-??-*) [ ! -w {ROOTS} ] || at=$roots ;; esac
look() {{
  there= pid= who=
  [ -h "$1" ] || [ -e "$1" ] || return
  if [ -h "$1" ] || [ ! -f "$1" ]; then there=odd; return; fi
  text=$(dd if="$1" bs={_BLOCK} count=1 2>/dev/null)
  pid=$(printf '%s\n' "$text" | sed -n 1p) who=$(printf '%s\n' "$text" | sed -n 2p)
  case $pid in ''|*[!0-9]*) there=left; return ;; esac
  words=$({{ tr '\0' ' ' </proc/"$pid"/cmdline || ps -ww -o args= -p "$pid"; }} 2>/dev/null)
  case $words in *dutlab-lease*) there=held ;; *) there=left ;; esac
}}
for other in "$roots" "$shared"; do
  [ "$other" != "$at" ] || continue
  look "$other"
  [ "$there" != held ] || {{ printf 'held\n%s\n' "$who"; exit 0; }}
done
look "$at"
[ "$there" != odd ] || {{ printf 'odd\n%s\n' "$at"; exit 0; }}
[ "$2" != over ] || [ "$there" = held ] || rm -f "$at"
mine=$(mktemp "$at.XXXXXXXXXX") || exit 1
printf '%s\n%s\n' $$ "$1" >"$mine" && chmod 644 "$mine" || {{ rm -f "$mine"; exit 1; }}
ln "$mine" "$at" 2>/dev/null
rm -f "$mine"
look "$at"
if [ "$pid" = $$ ] && [ "$who" = "$1" ]; then
  printf 'ours\n\n'
  cat >/dev/null
  look "$at"
  [ "$pid" != $$ ] || rm -f "$at"
  exit 0
fi
printf '%s\n%s\n' "${{there:-odd}}" "${{who:-$at}}"
"""

"""FreeBSD, alone and as router with pf(4), and pfSense, which is made of it.

Read in the sources of FreeBSD 14 (sbin/ping/ping.c, ping6.c; usr.bin/cpuset) and pfSense 2.7.2; never run on a machine.
"""

from __future__ import annotations

from dataclasses import replace

from dutlab.systems.posix import DOAS_OR_SUDO, SH, is_listening, listens
from dutlab.systems.system import IPSEC, PF_FIREWALL, PingWords, System

FREEBSD = System(
    name="freebsd",
    title="FreeBSD",
    kernel="FreeBSD",
    shell=SH,
    # -W and -x count milliseconds. ping6's options are others, also where ping(8) is both.
    ping=PingWords("FreeBSD", ("ping", "-n", "-c", "1", "-W", "1000", "-D", "-s"), ("ping6", "-n", "-c", "1", "-x", "1000", "-D", "-s")),
    listens=listens,
    is_listening=is_listening,
    install="pkg install {}",
    ports=("ifconfig", "-l"),
    pin=("cpuset", "-l"),
    as_root=DOAS_OR_SUDO,
)
FREEBSD_PF = replace(FREEBSD, name="freebsd-pf", title="FreeBSD with pf", modes=(*PF_FIREWALL, *IPSEC))
PFSENSE = replace(FREEBSD_PF, name="pfsense", title="pfSense")

"""OpenBSD, alone and as router with pf(4). Read in the sources of OpenBSD 7.6 (sbin/ping/ping.c, sbin/ifconfig); never run on a machine."""

from __future__ import annotations

from dataclasses import replace

from dutlab.systems.posix import DOAS_OR_SUDO, SH, is_listening, listens
from dutlab.systems.system import PF_FIREWALL, PingWords, System

OPENBSD = System(
    name="openbsd",
    title="OpenBSD",
    kernel="OpenBSD",
    shell=SH,
    # -m: ping6 does not have the kernel cut packets down to the least MTU of IPv6.
    ping=PingWords("OpenBSD", ("ping", "-n", "-c", "1", "-w", "1", "-D", "-s"), ("ping6", "-n", "-c", "1", "-w", "1", "-m", "-s")),
    listens=listens,
    is_listening=is_listening,
    install="pkg_add {}",
    ports=("sh", "-c", r"ifconfig | sed -n 's/^\([a-z0-9]*\):.*/\1/p'"),
    as_root=DOAS_OR_SUDO,
)
# ipsecctl(8) takes no fixed keys for AES-GCM.
OPENBSD_PF = replace(OPENBSD, name="openbsd-pf", title="OpenBSD with pf", modes=(*PF_FIREWALL, "ipsec-cbc"))

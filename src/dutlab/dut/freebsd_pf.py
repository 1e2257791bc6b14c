"""Family `freebsd-pf`: FreeBSD as router, as firewall by pf(4), and as the end of ESP tunnels."""

from __future__ import annotations

from dutlab.dut import pf_rules
from dutlab.dut.freebsd_ipsec import SetkeyEnd
from dutlab.dut.pf import PfSystem, pf_family

FREEBSD = PfSystem(
    sections=("nat", "rules"),
    nat=pf_rules.nat,
    nat_open=pf_rules.nat_open,
    # pfctl lists normalisation among the filter rules, after translation; the default order of pf.conf(5) would refuse that.
    head=("set require-order no",),
    is_module=True,
    rivals=("net.inet.ip.fw.enable",),
)

FAMILY = pf_family("freebsd-pf", FREEBSD, SetkeyEnd)

"""Family `openbsd-pf`: OpenBSD as router, as firewall by pf(4), and as the end of ESP tunnels.

Its modes run the processor at full speed (hw.setperf=100, sysctl(2)) where this setting exists, so that changes of the clock do not affect
the results. Undo restores the earlier policy.
"""

from __future__ import annotations

from dutlab.dut import pf_rules
from dutlab.dut.openbsd_ipsec import SUITES, IpsecctlEnd
from dutlab.dut.pf import FORWARDING, FORWARDING6, PfSystem, pf_family

OPENBSD = PfSystem(
    sections=("rules",),
    nat=pf_rules.nat_to,
    nat_open=pf_rules.nat_to_open,
    # hw.setperf is writable only with the manual policy, so the policy is set first and restored last.
    settings=((FORWARDING, "1"), (FORWARDING6, "1"), ("hw.perfpolicy", "manual"), ("hw.setperf", "100")),
)

FAMILY = pf_family("openbsd-pf", OPENBSD, IpsecctlEnd, SUITES)

"""Family `pfsense`: pfSense, whose pf is FreeBSD's and whose ruleset its own software writes to /tmp/rules.debug.

What is put back is that file as it was found: it names tables by the files that fill them, which the list of pfctl(8) does not tell.
pfSense loads it again by itself when an interface or a gateway changes; a mode that was lost that way does not verify.
"""

from __future__ import annotations

from dataclasses import replace

from dutlab.dut.freebsd_ipsec import SetkeyEnd
from dutlab.dut.freebsd_pf import FREEBSD
from dutlab.dut.pf import PfSystem, pf_family
from dutlab.dut.privilege import Root
from dutlab.errors import CommandFailed, HostError

RULES = "/tmp/rules.debug"  # noqa: S108 pfSense's own name for it


async def as_generated(root: Root, system: PfSystem) -> str:
    """The text of RULES. Raises HostError when pf would not take it back."""
    del system
    try:
        text = (await root.run(["cat", RULES])).text
        await root.run(["pfctl", "-n", "-f", "-"], stdin=text)
    except CommandFailed as e:
        raise HostError(
            f"the ruleset in {RULES} cannot be loaded again, so it could not be restored: {e.stderr_tail.strip()[:200]}",
            host=root.dut.name,
            remedy="reload the filter in pfSense (Status > Filter Reload), and see what it says",
        ) from e
    return text


PFSENSE = pf_family("pfsense", replace(FREEBSD, ruleset_to_restore=as_generated), SetkeyEnd)

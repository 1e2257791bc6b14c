"""Family `pfsense`: pfSense, whose pf is FreeBSD's and whose ruleset its own software writes to /tmp/rules.debug.

What is put back is that file as it was found: it names tables by the files that fill them, which the list of pfctl(8) does not tell. Other
tables are filled while pfSense runs (aliases by name, addresses that sshguard blocks), so their addresses are read before and put back, and
filterdns, which resolves names, has to look again, as pfSense does (filter.inc of 2.7.2, 1252).

pfSense loads the file again by itself when an interface, an address or a gateway changes (filter.inc, 955 and 1161), and enables pf: so the
mode is looked at after each trial, and the trial is void when it was lost.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dutlab.dut import pf_saved
from dutlab.dut.freebsd_ipsec import SetkeyEnd
from dutlab.dut.freebsd_pf import FREEBSD
from dutlab.dut.mode import UndoStep
from dutlab.dut.pf import PfSystem, pf_family
from dutlab.dut.privilege import Root
from dutlab.errors import CommandFailed, HostError
from dutlab.reason import reason_in

RULES = "/tmp/rules.debug"  # noqa: S108 pfSense's own name for it
_FROM_FILE = re.compile(r"^table <([^>]+)>[^\n]*\bfile\b", re.MULTILINE)
_LOOK_AGAIN = "if [ -r /var/run/filterdns.pid ]; then kill -HUP $(cat /var/run/filterdns.pid); fi"


async def run_time_tables(root: Root) -> list[UndoStep]:
    """The addresses of tables that no file fills, and filterdns woken."""
    from_file = set(_FROM_FILE.findall((await root.run(["cat", RULES], check=False)).text))
    steps = [
        root.step("pfctl", "-q", "-t", name, "-T", "replace", "-f", "-", stdin=addresses, why=f"table {name} as it was found")
        for name, (_, addresses) in (await pf_saved.tables(root)).items()
        if addresses and name not in from_file
    ]
    return [*steps, root.step("sh", "-c", _LOOK_AGAIN, why="tables of names, resolved again")]


async def as_generated(root: Root, system: PfSystem) -> str:
    """The text of RULES. Raises HostError when pf would not take it back."""
    del system
    try:
        text = (await root.run(["cat", RULES])).text
        await root.run(["pfctl", "-n", "-f", "-"], stdin=text)
    except CommandFailed as e:
        raise HostError(
            f"the ruleset in {RULES} cannot be loaded again, so it could not be restored: {reason_in(e.stderr_tail)}",
            host=root.dut.name,
            remedy="reload the filter in pfSense (Status > Filter Reload), and see what it says",
        ) from e
    return text


FAMILY = pf_family("pfsense", replace(FREEBSD, ruleset_to_restore=as_generated, own=RULES, afterwards=run_time_tables), SetkeyEnd)

"""Family `pfsense`: pfSense, which uses FreeBSD's pf with a ruleset that its own software writes to /tmp/rules.debug.

Undo restores that file as it was found: it names the files that fill tables, which the list of pfctl(8) does not. Other tables are filled
while pfSense runs (aliases by name, addresses that sshguard blocks), so their addresses are read before and restored. filterdns, which
resolves names, must resolve them again, as in pfSense (filter.inc of 2.7.2, 1252).

pfSense loads the file again automatically when an interface, an address or a gateway changes (filter.inc, 955 and 1161), and enables pf. So
the mode is checked after each trial, and the trial is void when the mode was lost.
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
    """Return the steps that restore tables without a file, and signal filterdns."""
    from_file = set(_FROM_FILE.findall((await root.run(["cat", RULES], check=False)).text))
    steps = [
        root.step("pfctl", "-q", "-t", name, "-T", "replace", "-f", "-", stdin=addresses, why=f"table {name} as it was found")
        for name, (_, addresses) in (await pf_saved.tables(root)).items()
        if addresses and name not in from_file
    ]
    return [*steps, root.step("sh", "-c", _LOOK_AGAIN, why="tables of names, resolved again")]


async def as_generated(root: Root, system: PfSystem) -> str:
    """Return the text of RULES. Raises HostError when pf would not accept it."""
    del system
    try:
        text = (await root.run(["cat", RULES])).text
        await root.run(["pfctl", "-n", "-f", "-"], stdin=text)
    except CommandFailed as e:
        raise HostError(
            f"the ruleset in {RULES} cannot be loaded again, so it could not be restored: {reason_in(e.stderr_tail)}",
            host=root.dut.name,
            remedy="reload the filter in pfSense (Status > Filter Reload), and read its message",
        ) from e
    return text


FAMILY = pf_family("pfsense", replace(FREEBSD, ruleset_to_restore=as_generated, own=RULES, afterwards=run_time_tables), SetkeyEnd)

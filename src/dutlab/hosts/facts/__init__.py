"""What a host is: all that a reader of a figure must know of the machine, and nothing secret.

Every fact is optional. One that cannot be read is None, and `absent` says why under the fact's path. All of them are read in one
command of the host, in two of a BSD. Host names, addresses and users are left out on purpose: they say nothing of speed. Of the kernel's
command line only the parameters that change its speed keep their values (`text.command_line`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dutlab.hosts.facts import card, drives, firewall, machine, neighbours
from dutlab.hosts.facts.questions import LONGEST_WAIT_S, ask
from dutlab.hosts.host import Host
from dutlab.systems import SYSTEMS
from dutlab.systems.facts import FactTree


async def collect_facts(host: Host, interfaces: Iterable[str], *, of_drives: bool = False, root: str = "") -> dict[str, Any]:
    """All facts of `host`, of its test `interfaces` and where they are asked for of its drives, fit for JSON.

    Raises HostError only when the host itself is gone. `root` is the folder that holds its /sys, /proc and /etc.
    """
    names = tuple(dict.fromkeys(interfaces))
    if host.system.facts is not None:
        return await _in_own_words(host, *host.system.facts, names)
    of_cards = [*(q for name in names for q in card.questions(name, root)), *neighbours.questions(names)]
    if of_drives:
        of_cards += drives.questions(root)
    answers = await ask(host, [*machine.questions(root), *firewall.questions(root), *of_cards])
    facts = FactTree()
    machine.put(facts, answers, root)
    firewall.put(facts, answers, root)
    for name in names:
        card.put(facts, answers, name, root)
    neighbours.put(facts, answers, names)
    if of_drives:
        drives.put(facts, answers, root)
    kernel, _ = answers.said("uname", "-s")
    own = next((system.own_facts for system in SYSTEMS.values() if system.own_facts and system.kernel == kernel), None)
    if own is not None:
        own.put(facts, await ask(host, list(own.questions(names))), names)
    return {"host": host.name, **facts.to_json()}


async def _in_own_words(
    host: Host, script: str, parse: Callable[[str, Sequence[str]], dict[str, object]], names: Sequence[str]
) -> dict[str, Any]:
    facts = FactTree()
    done = await host.run(host.system.shell.text(script), timeout_s=LONGEST_WAIT_S, check=False)
    try:
        for path, value in parse(done.text, names).items():
            facts.put(path, value, "not told")
    except ValueError:
        why = (done.errors or done.text).strip().splitlines()
        facts.put("kernel.name", None, f"{host.system.title} did not answer: {why[-1] if why else f'status {done.status}'}")
    return {"host": host.name, **facts.to_json()}

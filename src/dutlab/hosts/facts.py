"""Facts of a host: everything about the machine that a reader of a figure needs, without secrets.

Every fact is optional. A fact that cannot be read is None, and `absent` has the reason under its path. One command of the host reads all
facts, two on a BSD or Windows. Host names, addresses and users are left out on purpose, since they do not affect speed. In the kernel's
command line only parameters that affect its speed keep their values (`linux_facts/text.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dutlab.hosts.host import Host
from dutlab.systems import SYSTEMS, linux_facts
from dutlab.systems.facts import Answers, FactTree, Question

_ANSWER, _REFUSED = "\x1e", "\x1f"
_LONGEST_WAIT_S = 300.0
"""Time limit for a script of some hundred commands. A guest with an emulated processor takes minutes under load."""
_LONGEST_WHY = 200

# A failed command has its reason after its answer. Warnings never become part of an answer.
_SCRIPT = r"""
LC_ALL=C NO_COLOR=1 PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export LC_ALL NO_COLOR PATH
answer() {
  printf '\036%s\n' "$1"; shift
  { why=$("$@" 2>&1 >&3 </dev/null) || printf '\037%s' "$why"; } 3>&1
}
asroot() {  # as root where a way is given: these answer others too, but not whole
  [ "$(id -u)" != 0 ] && for way in doas sudo; do
    "$way" -n true 2>/dev/null && { "$way" -n "$@"; return; }
  done
  "$@"
}
kernel=$(uname -s)
optic() {  # INTERFACE: what its transceiver says, in this system's words
  case $kernel in FreeBSD) asroot ifconfig -vvv "$1" ;; OpenBSD) asroot ifconfig "$1" sff ;; *) ethtool -m "$1" ;; esac
}
"""


async def collect_facts(host: Host, interfaces: Iterable[str], *, of_drives: bool = False, root: str = "") -> dict[str, Any]:
    """Return all facts of `host` and its test `interfaces`, with `of_drives` also of its drives, ready for JSON.

    `root` is the folder that contains its /sys, /proc and /etc. Raises HostError only when the host is gone.
    """
    names = tuple(dict.fromkeys(interfaces))
    if host.system.facts is not None:
        return await _system_facts(host, *host.system.facts, names)
    answers = await _ask(host, list(linux_facts.questions(names, root, of_drives=of_drives)))
    facts = FactTree()
    linux_facts.put(facts, answers, names, root, of_drives=of_drives)
    kernel, _ = answers.output_of("uname", "-s")
    own = next((system.own_facts for system in SYSTEMS.values() if system.own_facts and system.kernel == kernel), None)
    if own is not None:
        own.put(facts, await _ask(host, list(own.questions(names))), names)
    return {"host": host.name, **facts.to_json()}


async def _system_facts(
    host: Host, scripts: Sequence[str], parse: Callable[[str, Sequence[str]], dict[str, object]], names: Sequence[str]
) -> dict[str, Any]:
    facts = FactTree()
    answers = [await host.run(host.system.shell.text(script), timeout_s=_LONGEST_WAIT_S, check=False) for script in scripts]
    try:
        for path, value in parse("\n".join(done.text for done in answers), names).items():
            facts.put(path, value, "not stated")
    except ValueError:
        done = answers[0]
        why = (done.errors or done.text).strip().splitlines()
        facts.put("kernel.name", None, f"{host.system.title} did not answer: {why[-1] if why else f'status {done.status}'}")
    return {"host": host.name, **facts.to_json()}


async def _ask(host: Host, questions: Sequence[Question]) -> Answers:
    """Return the answers to all questions, from one command that needs only a POSIX sh. Raises HostError when the host is gone."""
    asked = [f"answer {n} {shlex.join(question)}" for n, question in enumerate(questions)]
    script = "\n".join([_SCRIPT, linux_facts.WORDS, *asked, "exit 0", ""]).encode()
    done = await host.run(["sh", "-s"], stdin=script, timeout_s=_LONGEST_WAIT_S, check=False)
    answers: dict[Question, tuple[str | None, str]] = {}
    for part in done.text.replace("\0", "").split(_ANSWER)[1:]:
        number, _, body = part.partition("\n")
        text, refused, why = body.partition(_REFUSED)
        if number.isdigit() and int(number) < len(questions):
            question = questions[int(number)]
            answers[question] = (None, _last_line(why) or f"`{question[0]}` failed") if refused else (text.strip(), "")
    return Answers(answers, _last_line(done.errors) or "the host's sh did not answer")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[-_LONGEST_WHY:] if lines else ""

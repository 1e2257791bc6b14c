"""One run on a machine at a time: a lease that a run holds on every host of its testbed.

A file on the host itself, where other controllers see it too, linked into its place since that is atomic on every system. It holds the
number of a process there that lives as long as the holder's connection, and who holds it, for which run and since when: so the next one
can tell a holder that measures from one that died.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from dutlab.errors import HostError, TestbedError
from dutlab.hosts.host import Host, Process

PLACE = "/var/tmp/dutlab-lease-"  # noqa: S108 who may write there may also end our processes or is shown as holder, nothing more
"""Followed by the number of the host's network namespace: two that share a file system are two machines. Empty without /proc."""
_ENDS_S = 10.0
_HOLD = rf"""
at={PLACE}$(readlink /proc/self/ns/net 2>/dev/null | tr -dc 0-9); mine=$at.$$
printf '%s\n%s\n' $$ "$1" >"$mine" || exit 1
[ "$2" != over ] || rm -f "$at"
if ln "$mine" "$at" 2>/dev/null; then
  rm -f "$mine"; printf 'ours\n\n'
  cat >/dev/null
  [ "$(sed -n 1p "$at")" != $$ ] || rm -f "$at"
  exit 0
fi
rm -f "$mine"; pid=$(sed -n 1p "$at")
case $(ps -ww -o args= -p "$pid" 2>/dev/null) in *dutlab-lease*) echo held ;; *) echo left ;; esac
sed -n 2p "$at"
"""


@dataclass(frozen=True)
class Holder:
    """Who has a machine. `run` is the folder of the run, as the holder's controller names it."""

    who: str
    run: str
    since: str

    @classmethod
    def this_process(cls, run: Path, now: datetime) -> Self:
        """For the run in the folder `run`."""
        return cls(f"{getpass.getuser()}@{platform.node()} (process {os.getpid()})", str(run.resolve()), now.isoformat(timespec="seconds"))


class InUse(TestbedError):
    """Another run has a machine of the testbed. `holder` is None when the lease does not say who."""

    def __init__(self, host: str, holder: Holder | None, *, alive: bool) -> None:
        said = f"{holder.who} for {holder.run} since {holder.since}" if holder else "an unknown run"
        if alive:
            what, remedy = f"{host}: in use by {said}", "wait for it, or end it there with Ctrl-C, which restores the DUT"
        else:
            what = f"{host}: left in use by {said}, which has ended"
            remedy = (
                f"`dutlab undo {holder.run if holder else 'RUN'}` there restores and frees it; `dutlab run --take-over` uses it as it is"
            )
        super().__init__(what, remedy=remedy)
        self.host, self.holder, self.alive = host, holder, alive


@asynccontextmanager
async def leased(hosts: Mapping[str, Host], holder: Holder, *, take_over: bool = False) -> AsyncIterator[None]:
    """Holds a lease on every host. One whose holder has died is taken if it was for the same run, or if `take_over`.

    Raises InUse, HostError.
    """
    held: list[Process] = []
    try:
        for name in sorted(hosts):  # in one order, so that of two runs that start together one gets all
            if (process := await _take(hosts[name], holder, take_over=take_over)) is not None:
                held.append(process)  # noqa: PERF401 -- those before are given back when one is refused
        yield
    finally:
        for process in reversed(held):
            with contextlib.suppress(HostError):  # the connection was lost: the lease stays, and shows that its holder is gone
                await process.close_stdin()
                await process.wait(_ENDS_S)


async def _take(host: Host, holder: Holder, *, take_over: bool) -> Process | None:
    """None: the holder has the machine already, under the name of another role."""
    words = json.dumps(asdict(holder))
    process, state, other = await _try(host, words, "")
    if state == "left" and (take_over or (other is not None and other.run == holder.run)):
        process, state, other = await _try(host, words, "over")
    if state == "ours":
        return process
    done = await process.end()
    if state == "held" and other == holder:
        return None
    if state:
        raise InUse(host.name, other, alive=state == "held")
    said = done.complaint
    raise HostError(f"no lease can be made: {said}", host=host.name, remedy=f"see that {Path(PLACE).parent} can be written")


async def _try(host: Host, words: str, over: str) -> tuple[Process, str, Holder | None]:
    process = await host.spawn(["sh", "-c", _HOLD, "dutlab-lease", words, over])
    state, said = (await process.readline()).decode().strip(), await process.readline()
    try:
        return process, state, Holder(**json.loads(said))
    except (ValueError, TypeError):
        return process, state, None

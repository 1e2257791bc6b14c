"""Places of hosts that a file names: the values of `--map NAME=HOST`, and the hosts behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dutlab.ending import closing
from dutlab.errors import InputError
from dutlab.hosts.host import CommandLog, Host
from dutlab.hosts.reach import host_at
from dutlab.spec.fields import ssh_fault

if TYPE_CHECKING:
    from dutlab.labs import Lab

PLACES = "local, ssh:[user@]host[:port], TESTBED.yaml/HOST, or lab:NAME/HOST as in lab:three-node/source"
_FILES = (".yaml", ".yml")


@dataclass(frozen=True)
class TestPlace:
    """A host as it was written and understood."""

    said: str
    lab: str = ""
    """Name of an embedded lab that is built for it; `role` is then the host in it."""
    role: str = ""
    ssh: str | None = None
    """Address of a machine that is reached over ssh; with neither this nor a lab it is this machine."""
    is_shared: bool = False
    """Other controllers may reach it too, so it is leased."""


def read_place(text: str) -> TestPlace:
    """Raises InputError; SpecRefused for a testbed file that is refused."""
    kind, _, rest = text.partition(":")
    if text == "local":
        return TestPlace(text)
    if kind == "ssh":
        if what := ssh_fault(rest):
            raise InputError(f"{text}: {what}")
        return TestPlace(text, ssh=rest, is_shared=True)
    if kind == "lab" and rest.count("/") == 1:
        lab, _, role = rest.partition("/")
        return TestPlace(text, lab=lab, role=role)
    file, _, name = text.rpartition("/")
    if file.endswith(_FILES) and name:
        return _of_testbed(text, Path(file), name)
    raise InputError(f"{text}: no such kind of host", remedy=f"a host is {PLACES}")


def _of_testbed(text: str, file: Path, name: str) -> TestPlace:
    if not file.is_file():
        raise InputError(f"{text}: there is no file {file}")
    from dutlab.spec.loader import load_testbed

    testbed = load_testbed(file)
    if name not in testbed.hosts:
        raise InputError(f"{text}: testbed {testbed.name} has no host {name}", remedy=f"it has {', '.join(testbed.hosts)}")
    return TestPlace(text, ssh=testbed.hosts[name].ssh, is_shared=True)


@asynccontextmanager
async def hosts_at(places: Mapping[str, TestPlace], log: CommandLog, label: str | None) -> AsyncIterator[dict[str, Host]]:
    """The hosts behind their names; the lab that one of them is in is built as `label` for it and taken down after it."""
    names, hosts = {place.lab for place in places.values() if place.lab}, dict[str, Host]()
    async with AsyncExitStack() as undo:
        lab = None
        if names:
            from dutlab import labs

            lab = await undo.enter_async_context(labs.used(names.pop(), label=label))
        for name, place in places.items():
            hosts[name] = await _host(name, place, lab, log)
            await undo.enter_async_context(closing(hosts[name]))
        yield hosts


def lab_of(places: Mapping[str, TestPlace]) -> str | None:
    """A label for the lab that a place is in, if any is. Raises InputError when there are several."""
    names = {place.lab for place in places.values() if place.lab}
    if len(names) > 1:
        raise InputError(f"hosts of several labs: {', '.join(sorted(names))}", remedy="name one lab")
    if not names:
        return None
    from dutlab.labs import new_label

    return new_label()


async def _host(name: str, place: TestPlace, lab: Lab | None, log: CommandLog) -> Host:
    if lab is None or not place.lab:
        return host_at(name, place.ssh, log)
    if place.role not in lab.testbed.hosts:
        raise InputError(f"{place.said}: the lab has no host {place.role}", remedy=f"it has {', '.join(lab.testbed.hosts)}")
    return await lab.machine(place.role, name, log)

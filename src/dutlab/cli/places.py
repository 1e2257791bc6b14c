"""Places of a file's hosts, from `--map NAME=HOST`, and connections to them."""

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
    """Place of a host, as written (`text`) and parsed."""

    text: str
    lab: str = ""
    """Name of an embedded lab to build; `role` is then its host."""
    role: str = ""
    ssh: str | None = None
    """Destination of ssh. Without this and without a lab, the host is this machine."""
    is_shared: bool = False
    """True if other controllers may reach the host, so that it is leased."""


def read_place(text: str) -> TestPlace:
    """Parse the place of a host. Raises InputError; SpecRefused for a testbed file with faults."""
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
    """Connect to the hosts during the context. If one is in a lab, the lab is built with label `label` and taken down at the end."""
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
    """Return a new label for the lab of the places; None without a lab. Raises InputError if there are several labs."""
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
        raise InputError(f"{place.text}: the lab has no host {place.role}", remedy=f"it has {', '.join(lab.testbed.hosts)}")
    return await lab.machine(place.role, name, log)

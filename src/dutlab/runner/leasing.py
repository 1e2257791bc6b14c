"""Lease of a run on its hosts, written to its journal, and clean-up of runs whose lease is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime

from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.lease import Holder, InUse, leased
from dutlab.runner.journal import Journal
from dutlab.store.run_folder import RunFolder

HOSTS = "hosts"
"""Key in resolved.json of a run without a testbed: host → its ssh destination, None for this machine."""


@contextmanager
def begun(folders: Sequence[RunFolder]) -> Iterator[list[Journal]]:
    """Open the journals of new runs. If their hosts are in use and no run has begun a trial, remove their folders.

    Raises InputError, StoreError.
    """
    with ExitStack() as closing:
        journals = []
        for folder in folders:
            journals.append(Journal(folder.journal))
            closing.callback(journals[-1].close)
        try:
            yield journals
        except InUse:
            if not any(folder.has_begun for folder in folders):
                for folder in folders:
                    folder.withdraw()
            raise


@asynccontextmanager
async def leased_by(
    hosts: Mapping[str, Host], folder: RunFolder, journal: Journal, *, take_over: bool = False, note: Callable[[str], None] | None = None
) -> AsyncIterator[None]:
    """Hold `hosts` for this run, and write it to the journal; `note` gets the hosts that could not be freed. Raises InUse, HostError."""
    journal.write("leasing", hosts=sorted(hosts))
    left: list[str] = []
    try:
        async with leased(hosts, Holder.this_process(folder.path, datetime.now(UTC), folder.token), take_over=take_over) as left:
            yield
    except (HostError, InUse):  # a lease may remain, on an unreachable host or from before this run was cut: undo frees it
        raise
    except BaseException:
        _ended(journal, left, folder, note)
        raise
    _ended(journal, left, folder, note)


def _ended(journal: Journal, left: Sequence[str], folder: RunFolder, note: Callable[[str], None] | None) -> None:
    journal.write("lease-left" if left else "lease-ended", hosts=left)
    if left and note is not None:
        note(f"{', '.join(left)}: could not be reached to be freed; `dutlab undo {folder.path}` frees it")

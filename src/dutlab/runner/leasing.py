"""A run's lease on its hosts, told in its journal; and what becomes of a run that is refused one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime

from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.lease import Holder, InUse, leased
from dutlab.runner.journal import Journal
from dutlab.store.run_folder import RunFolder


@contextmanager
def begun(folder: RunFolder) -> Iterator[Journal]:
    """The journal of a run that was just made. A run whose hosts are in use has measured nothing, and its folder goes.

    Raises InputError, StoreError.
    """
    journal = Journal(folder.journal)
    try:
        yield journal
    except InUse:
        folder.withdraw()
        raise
    finally:
        journal.close()


@asynccontextmanager
async def leased_by(
    hosts: Mapping[str, Host], folder: RunFolder, journal: Journal, *, take_over: bool = False, note: Callable[[str], None] | None = None
) -> AsyncIterator[None]:
    """Holds `hosts` for this run alone, and lets the journal tell so; `note` is told what could not be freed. Raises InUse, HostError."""
    journal.write("leasing", hosts=sorted(hosts))
    left: list[str] = []
    try:
        async with leased(hosts, Holder.this_process(folder.path, datetime.now(UTC), folder.token), take_over=take_over) as left:
            yield
    except (HostError, InUse):  # a lease may have stayed, where nobody can be reached or of this run before it was cut: undo frees it
        raise
    except BaseException:
        _ended(journal, left, folder, note)
        raise
    _ended(journal, left, folder, note)


def _ended(journal: Journal, left: Sequence[str], folder: RunFolder, note: Callable[[str], None] | None) -> None:
    journal.write("lease-left" if left else "lease-ended", hosts=left)
    if left and note is not None:
        note(f"{', '.join(left)}: could not be reached to be freed; `dutlab undo {folder.path}` frees it")

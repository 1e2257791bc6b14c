"""A run's lease on its hosts, told in its journal; and what becomes of a run that is refused one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
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
async def leased_by(hosts: Mapping[str, Host], folder: RunFolder, journal: Journal, *, take_over: bool = False) -> AsyncIterator[None]:
    """Holds `hosts` for this run alone, and lets the journal tell so. Raises InUse, HostError."""
    journal.write("leasing", hosts=sorted(hosts))
    try:
        async with leased(hosts, Holder.this_process(folder.path, datetime.now(UTC)), take_over=take_over):
            yield
    except (HostError, InUse):  # a lease may have stayed, where nobody can be reached or of this run before it was cut: undo frees it
        raise
    except BaseException:
        journal.write("lease-ended")
        raise
    journal.write("lease-ended")

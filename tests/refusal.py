"""A host that ssh does not let in, and what is said of it."""

from __future__ import annotations

import asyncio

import pytest

from dutlab.errors import CommandFailed, HostError
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from processes import eventually, programs


async def refused(login: Login) -> str:
    host = SshHost(login)
    with pytest.raises(HostError) as caught:
        await host.run(["true"])
    await host.close()
    assert await asyncio.to_thread(eventually, lambda: not programs())  # the way into the namespace, which ends when the door is shut
    assert not isinstance(caught.value, CommandFailed)
    return str(caught.value)

"""What is said of what is refused: of calls, for golden pages, and of a host that ssh does not let in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pydantic import ValidationError

from dutlab.errors import CommandFailed, HostError
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from processes import eventually, programs


def refusals(kind: type[Exception], calls: Iterable[Callable[[], object]], folder: Path | None = None) -> str:
    """What each call is refused with, a paragraph each; `folder` is left out of paths."""
    said = []
    for call in calls:
        with pytest.raises(kind) as caught:
            call()
        said.append(str(caught.value).replace(f"{folder}/", ""))
    return "\n\n".join(said) + "\n"


def faults_of(call: Callable[[], object]) -> str:
    """Each fault that a model finds: where it is, and what."""
    with pytest.raises(ValidationError) as caught:
        call()
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or '-'}: {fault['msg']}" for fault in caught.value.errors())


async def refused(login: Login) -> str:
    host = SshHost(login)
    with pytest.raises(HostError) as caught:
        await host.run(["true"])
    await host.close()
    assert await asyncio.to_thread(eventually, lambda: not programs())  # the way into the namespace, which ends when the door is shut
    assert not isinstance(caught.value, CommandFailed)
    return str(caught.value)

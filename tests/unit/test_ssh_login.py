"""What keeps ssh from logging in although no host was reached yet."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import pytest

from dutlab.errors import HostError
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login


async def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host router\n  HostName 127.0.0.1\n  IdentityFile {tmp_path}/absent\n")
    host = SshHost(Login("dut", "router", (config,)))
    with pytest.raises(HostError, match=f"{tmp_path}/absent") as refused:
        await host.run(["true"])
    assert refused.value.host == "dut" and "IdentityFile" in refused.value.remedy
    await host.close()


async def test_a_proxy_command_that_ends_by_itself_is_waited_for_once_and_nobody_warns(tmp_path, caplog):
    (config := tmp_path / "config").write_text("Host router\n  HostName 127.0.0.1\n  ProxyCommand sh -c 'exit 3'\n")
    filters = logging.getLogger("asyncio").filters
    for _ in range(5):
        host = SshHost(Login("dut", "router", (config,)))
        with pytest.raises(HostError, match="dut: ssh router"):
            await host.run(["true"])
        await host.close()
    assert not filters
    assert not [record.getMessage() for record in caplog.records if "child process" in record.getMessage()]
    assert not _ended_children()


def _ended_children():
    """Children that nobody has waited for."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            found += [stat.parent.name] if (state, parent) == ("Z", str(os.getpid())) else []
    return found

"""What keeps ssh from logging in although no host was reached yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.errors import HostError
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login


async def test_a_key_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host router\n  HostName 127.0.0.1\n  IdentityFile {tmp_path}/absent\n")
    host = SshHost(Login("dut", "router", (config,)))
    said = rf"dut: ssh router: {tmp_path}/absent: No such file or directory; correct IdentityFile or ProxyCommand in ~/\.ssh/config"
    with pytest.raises(HostError, match=said):
        await host.run(["true"])
    await host.close()

"""Who has a machine, as its lease names them."""

from __future__ import annotations

import getpass
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dutlab.hosts.lease import Holder


def test_a_user_who_has_no_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert Holder.this_process(tmp_path, datetime.now(UTC)).who.startswith(f"user {os.getuid()}@")

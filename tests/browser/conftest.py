"""One browser for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from browser.chromium import Chromium, program
from capability import need


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    need("chromium", program() is not None)
    with Chromium() as running:
        yield running

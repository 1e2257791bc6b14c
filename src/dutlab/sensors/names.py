"""Names of counters that several systems share."""

from __future__ import annotations

CONNTRACK_ENTRIES = "conntrack_entries"
"""Flows that the host tracks. A level, not a counter: difference() leaves it as it was after the trial."""

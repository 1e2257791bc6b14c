"""The report's model as JSON: everything that the page shows, for programs. Rates in bits and frames a second, latencies in nanoseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from dutlab.report.model import RunReport

REPORT_SCHEMA_VERSION = 1


def json_data(runs: Sequence[RunReport]) -> str:
    """A place without a figure is an object with `why` instead of `median`."""
    found = {"schema_version": REPORT_SCHEMA_VERSION, "runs": [asdict(r) for r in runs]}
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

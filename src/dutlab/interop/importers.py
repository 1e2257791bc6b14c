"""Which files of other tools can be imported, and the module that reads each kind."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from dutlab.interop.imported_run import Imported, ImportOptions

Importer = Callable[[str, bytes, ImportOptions], list[Imported]]
"""(name of the file, its bytes, what the user said) → its trials. Raises InputError."""

IMPORTERS: Mapping[str, str] = {
    "figures": "dutlab.interop.figure_table:imported",
    "iperf3": "dutlab.interop.iperf3_run:imported",
    "ipgen": "dutlab.interop.generator_runs:ipgen",
    "loadtest": "dutlab.interop.loadtest_run:imported",
    "pkt-gen": "dutlab.interop.generator_runs:pktgen",
}
"""Kind → its Importer, as module:function."""


def importer(kind: str) -> Importer:
    """Raises KeyError."""
    module, _, function = IMPORTERS[kind].partition(":")
    found: Importer = getattr(importlib.import_module(module), function)
    return found

"""Which files of other tools can be imported, and the module that reads each kind."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from dutlab.interop.imported_run import Imported, ImportOptions

Importer = Callable[[str, bytes, ImportOptions], Imported]
"""(name of the file, its bytes, what the user said) → a trial. Raises InputError."""

IMPORTERS: Mapping[str, str] = {
    "loadtest": "dutlab.interop.loadtest_run",
}
"""Kind → the module whose `imported` is its Importer."""


def importer(kind: str) -> Importer:
    """Raises KeyError."""
    found: Importer = importlib.import_module(IMPORTERS[kind]).imported
    return found

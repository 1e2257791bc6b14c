"""Metadata of installed packages (importlib.metadata), imported when something uses it and not when a module names it.

Pydantic imports it to look for plugins in every package, which main() disables. With the parser of e-mail headers that it needs, it takes
a twentieth of the CPU time of `dutlab plan`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_NAME = "importlib.metadata"


class _Deferred(ModuleType):
    """Module of the name `importlib.metadata` until one of its functions is called, or anything else of it is used."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- an attribute of a module can be anything
        if name == "entry_points":  # names that pydantic imports from it and never calls
            return lambda **params: self._real().entry_points(**params)
        if name.startswith("__"):  # asked of every module by `from … import` and inspect
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> Any:  # noqa: ANN401 -- as above
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        return importlib.import_module(_NAME)


def defer_metadata() -> None:
    """Put off the import of importlib.metadata, unless it is imported already."""
    if _NAME not in sys.modules:
        sys.modules[_NAME] = deferred = _Deferred(_NAME)
        vars(importlib)["metadata"] = deferred  # for `import importlib.metadata`

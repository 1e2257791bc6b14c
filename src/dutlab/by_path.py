"""Objects by import path, `module:name`, imported at first use. Registries name code by such paths, to keep start-up short."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, TypeVar

T = TypeVar("T")


def named(path: str) -> Any:  # noqa: ANN401 -- a path can name anything; callers say its type
    """Import the module of `module:name` and return the object. The name may have dots. Raises ImportError, AttributeError."""
    module, _, name = path.partition(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))


class ByPath(Mapping[str, T]):
    """Name → object. Only `[]`, `get`, `values` and `items` import its module; names and their number need no import."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = paths
        """Name → path."""

    def __getitem__(self, name: str) -> T:
        value: T = named(self.paths[name])
        return value

    def __contains__(self, name: object) -> bool:
        return name in self.paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

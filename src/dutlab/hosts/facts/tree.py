"""Facts by their path, and why one is not there."""

from __future__ import annotations

from typing import Any


class FactTree:
    """Collects values by path; a value that is not there is noted with its reason."""

    def __init__(self) -> None:
        self._tree: dict[str, Any] = {}
        self._absent: dict[str, str] = {}

    def put(self, path: str, value: object, why: str = "") -> None:
        """`path` is divided by dots, or by slashes where names with dots in them are part of it. A later value stands for an earlier."""
        node = self._tree
        *folders, leaf = path.split("/") if "/" in path else path.split(".")
        for folder in folders:
            node = node.setdefault(folder, {})
        node[leaf] = value
        if value is None:
            self._absent[path] = why or "not reported"
        else:
            self._absent.pop(path, None)

    def to_json(self) -> dict[str, Any]:
        """Sorted, with the reasons under `absent`."""
        return {**dict(sorted(self._tree.items())), "absent": dict(sorted(self._absent.items()))}

"""A run on its way out of this machine, to a site or an object store: every door takes the files from here, with secrets covered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, Self

from dutlab.bounds import RAW
from dutlab.store.beneath import Beneath
from dutlab.store.manifest import ADDITIONS, MANIFEST, redacted_files
from dutlab.store.redaction import RedactedFile, Redactor, as_file
from dutlab.store.run_folder import RunFolder


class OutgoingRun:
    """The files of one run as others get them. The run folder stays as it is."""

    def __init__(self, run: RunFolder, source: Beneath, redactor: Redactor) -> None:
        self._source, self._redactor, self._before = source, redactor, redacted_files(run.path)
        self.covered: dict[str, RedactedFile] = {}
        """Those of the files that were opened so far in which something was covered."""

    @classmethod
    @contextmanager
    def opened(cls, run: RunFolder, environment: Mapping[str, str]) -> Iterator[Self]:
        """`environment` has the secrets of this machine. Raises StoreError, OSError."""
        redactor = Redactor(run.resolved, environment)
        with Beneath.opened(run.path) as source:
            yield cls(run, source, redactor)

    def open(self, name: str) -> BinaryIO:
        """A file by its relative name, or a temporary copy without its secrets. What a person added has its own hash and stays as it is.

        Raises OutsideFolder, UnfitFile, StoreError, OSError.
        """
        file = self._source.open_plain(name, RAW)
        if name == MANIFEST or name.startswith(f"{ADDITIONS}/"):
            return file
        copy, redaction = self._redactor.redacted(name, file)
        if redaction is None:
            return file
        file.close()
        self.covered[name] = redaction
        return copy

    @property
    def redacted_json(self) -> bytes | None:
        """REDACTED of the copy, once every file was opened; None where nothing is covered."""
        return as_file(self.covered, self._before) if self.covered or self._before else None

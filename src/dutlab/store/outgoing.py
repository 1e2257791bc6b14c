"""Files of a run that leave this machine, for a site or an object store, with secrets covered. Every exporter reads them here."""

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
    """Files of one run with secrets covered. The run folder does not change."""

    def __init__(self, run: RunFolder, source: Beneath, redactor: Redactor) -> None:
        self._source, self._redactor, self._before = source, redactor, redacted_files(run.path)
        self.covered: dict[str, RedactedFile] = {}
        """Files opened so far in which secrets were covered, by name."""

    @classmethod
    @contextmanager
    def opened(cls, run: RunFolder, environment: Mapping[str, str]) -> Iterator[Self]:
        """Open a run for export. `environment` has the secrets of this machine. Raises StoreError, OSError."""
        redactor = Redactor(run.resolved, environment)
        with Beneath.opened(run.path) as source:
            yield cls(run, source, redactor)

    def open(self, name: str) -> BinaryIO:
        """Open a file by its relative name, or a temporary copy without its secrets. Additions are not changed: they have their own hashes.

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
        """Content of REDACTED for the copy, after every file was opened; None if nothing is covered."""
        return as_file(self.covered, self._before) if self.covered or self._before else None

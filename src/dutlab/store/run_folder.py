"""One run as a folder of plain files, each written once.

    experiment.yaml testbed.yaml      as the user wrote them; resolved.json has them with all defaults
    plan.json                         trials in order, seed, estimate
    seal.json                         the run's token, and proof of who made it: undo and resume check it
    hosts/NAME.json                   facts; NAME~2.json has those of a resumed run
    doctor.json                       findings: what distorts results on the testbed; doctor~2.json of a resumed run
    journal.jsonl                     changes made to hosts; journal.seal proves that it is whole
    events.jsonl                      events of the run, for live views
    trials/0001/raw/…                 every tool's own output
    trials/0001/samples.parquet       time series; absent when nothing was watched
    trials/0001/details.json          histograms and commands (store.details)
    trials/0001/record.json           written last: a trial is complete when it exists
    trials/0007.cut-1/                files of a trial that was cut
    trials/0007.disturbed-1/          an attempt that does not count, complete with its record (store.attempts)
    MANIFEST.sha256                   written when the run has finished
    additions/0001.json               a note or a file that a person added later, with its hash
    report/                           made from the other files; it may be made again

Times and names are from the caller; this module reads no clock.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from dutlab.bounds import PLAN
from dutlab.errors import InputError, StoreError
from dutlab.store.attempts import Attempt, AttemptReason, attempts_in, set_aside
from dutlab.store.beneath import Beneath
from dutlab.store.details import TrialDetails
from dutlab.store.judged import as_disturbed, judged
from dutlab.store.manifest import JOURNAL, MANIFEST, ManifestDifference, compare, is_temporary, manifest_of
from dutlab.store.names import checked_component, checked_relative, run_name, trial_folder, trial_of
from dutlab.store.read import CHANGED
from dutlab.store.record import SCHEMA_VERSION, TrialRecord
from dutlab.store.record_files import NewerRun, bounded_files, details_in, read_object, read_record, record_json
from dutlab.store.record_reader import RecordReader
from dutlab.store.samples import SampleRow, columns, means_of, write_samples
from dutlab.store.seal import SEAL, new_seal, token_of
from dutlab.store.write import (
    Sync,
    as_json,
    as_store_error,
    locked_folder,
    rename_folder,
    sweep,
    sync_all,
    sync_directory,
    write_once,
)


class RunFolder:
    """Run on disk. Nothing is cached: each call reads the files again."""

    def __init__(self, path: Path, sync: Sync = Sync.EACH) -> None:
        self.path, self._sync = path, sync

    @classmethod
    def create(
        cls,
        runs: Path,
        *,
        experiment: str,
        experiment_yaml: bytes,
        testbed_yaml: bytes | None,
        resolved: Mapping[str, Any],
        plan: Mapping[str, Any],
        now: datetime,
        token: str | None = None,
        sync: Sync = Sync.EACH,
    ) -> Self:
        """Create a run's folder in `runs`, atomically. `testbed_yaml` is None for an embedded lab; `sync` applies to its trials.

        Raises StoreError: DiskFull, AlreadyWritten, or `runs` cannot be written.
        """
        name = run_name(experiment, now, token)
        part = runs / f".{name}.{os.getpid()}.part"
        try:
            sweep(runs)
            part.mkdir(parents=True)
            with locked_folder(part):
                (part / "hosts").mkdir()
                (part / "trials").mkdir()
                write_once(part / "experiment.yaml", experiment_yaml)
                if testbed_yaml is not None:
                    write_once(part / "testbed.yaml", testbed_yaml)
                write_once(part / "resolved.json", as_json(resolved))
                write_once(part / "plan.json", as_json(plan))
                write_once(part / SEAL, as_json(new_seal(part)))
                part.rename(runs / name)
            sync_directory(runs)
        except OSError as error:
            raise as_store_error(error, runs / name, None) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return cls(runs / name, sync)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing run, finished or not. Raises InputError if `path` is not a run."""
        if not path.is_dir():
            raise InputError(f"{path}: is not a folder", remedy="name a run's folder, as in runs/2026-11-21T0801Z-firewall-modes-3f2a")
        if absent := [n for n in ("plan.json", "resolved.json", "trials") if not (path / n).exists()]:
            raise InputError(f"{path}: is not a run: {', '.join(absent)} missing", remedy="name the folder that holds plan.json")
        return cls(path.resolve())

    @property
    def has_begun(self) -> bool:
        """True if a trial of the run has begun."""
        return bool(self._trials())

    def withdraw(self) -> None:
        """Delete the run if none of its trials has begun."""
        if not self.has_begun:
            shutil.rmtree(self.path, ignore_errors=True)

    @property
    def name(self) -> str:
        """Name of the run, such as `2026-11-21T0801Z-firewall-modes-3f2a`."""
        return self.path.name

    @property
    def journal(self) -> Path:
        """Path of the runner's journal."""
        return self.path / JOURNAL

    @property
    def token(self) -> str:
        """Token that identifies this run in any folder; empty for runs without one."""
        return token_of(self.path)

    @property
    def plan(self) -> dict[str, Any]:
        """Content of plan.json. Raises StoreError."""
        return read_object(self.path / "plan.json", PLAN)

    @property
    def resolved(self) -> dict[str, Any]:
        """Content of resolved.json. Raises StoreError."""
        return read_object(self.path / "resolved.json")

    def write_host(self, name: str, facts: Mapping[str, Any]) -> Path:
        """Write a host's facts. A later call for the same host, in a resumed run, writes NAME~2.json. Raises StoreError."""
        return _write_next(self.path / "hosts", checked_component(name), facts)

    def write_calibration(self, calibration: Mapping[str, Any]) -> Path:
        """Write the results of the rig without the DUT; those of a resumed run go to calibration~2.json. Raises StoreError."""
        return _write_next(self.path, "calibration", calibration)

    def write_findings(self, findings: Sequence[Mapping[str, Any]]) -> Path:
        """Write the findings; those of a resumed run go to doctor~2.json. Raises StoreError."""
        return _write_next(self.path, "doctor", {"schema_version": SCHEMA_VERSION, "findings": list(findings)})

    def findings(self) -> list[dict[str, Any]]:
        """Return the findings of all examinations of the testbed. Raises NewerRun, StoreError."""
        files = [read_object(p) for p in sorted(self.path.glob("doctor*.json"))]
        return [f for file in files for f in file.get("findings", []) if isinstance(f, dict)]

    @property
    def calibration(self) -> dict[str, Any]:
        """Content of calibration.json; empty if the rig was not measured. Raises StoreError."""
        path = self.path / "calibration.json"
        return read_object(path) if path.exists() else {}

    def hosts(self) -> dict[str, dict[str, Any]]:
        """Return facts by the name of their file: `dut`, and `dut~2` of a resumed run. Raises StoreError."""
        return {p.stem: read_object(p) for p in sorted((self.path / "hosts").glob("*.json"))}

    def write_trial(
        self, record: TrialRecord, raw: Mapping[str, bytes], samples: Iterable[SampleRow] = (), details: TrialDetails | None = None
    ) -> TrialRecord:
        """Write a trial: raw outputs, samples and details first, the record last. Return the record with `raw` and `watched` filled in.

        A record or details larger than readers accept become raw outputs; for a record, the trial is then marked failed.

        Keys of `raw` are relative paths under raw/. Raises StoreError (DiskFull, AlreadyWritten, UnsafeName); the trial
        then has no record, and a new folder is removed.
        """
        rows = list(samples)
        bounded_record, kept_raw, data = bounded_files(
            record.model_copy(update={"watched": means_of(rows)}) if rows else record, raw, details
        )
        outputs = {checked_relative(name): output for name, output in kept_raw.items()}
        folder = trial_folder(self.path, record.trial)
        fresh = not folder.exists()
        try:
            with Beneath.opened(self.path) as run:
                run.make_folder(f"trials/{folder.name}")
                for name, output in outputs.items():
                    path = folder / "raw" / name
                    with run.below(path.parent.relative_to(self.path).as_posix()) as below:
                        write_once(path, output, Sync.AT_END, folder=below)
            for file_name, part in data.items():
                write_once(folder / file_name, part, Sync.AT_END)
            if rows:
                write_samples(folder / "samples.parquet", columns(rows))
            if self._sync is Sync.EACH:
                folders = {parent for name in outputs for parent in name.parents}
                sync_all(
                    [
                        *(folder / "raw" / path for path in (*outputs, *folders)),
                        *(folder / name for name in data),
                        folder,
                        folder.parent,
                    ]
                )
            write_once(folder / "record.json", record_json(bounded_record), self._sync)
        except OSError as error:
            raise as_store_error(error, folder, None) from error
        finally:
            if fresh and not (folder / "record.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
        return bounded_record

    def finished(self) -> set[int]:
        """Return the trials that have a record."""
        return {trial for trial, _ in self._finished()}

    def discard_incomplete(self, trial: int) -> Path | None:
        """Move the folder of a cut trial to trials/NNNN.cut-1 (or the next free number), so that the trial can be done again.

        Return the new path; None if there was no folder. Raises StoreError, also for a trial that has its record.
        """
        folder = trial_folder(self.path, trial)
        if not folder.exists():
            return None
        if (folder / "record.json").exists():
            raise StoreError(f"{folder}: is a finished trial and stays", remedy="only a trial without record.json can be done again")
        number = 1
        while (aside := folder.with_name(f"{folder.name}.cut-{number}")).exists():
            number += 1
        rename_folder(folder, aside)
        return aside

    def record(self, trial: int) -> TrialRecord:
        """Return the record of a finished trial as it was written. Raises NewerRun, StoreError."""
        return read_record(trial_folder(self.path, trial), trial)

    def records(self) -> Iterator[TrialRecord]:
        """Yield the records of all finished trials in order, judged (store.judged). Raises NewerRun, StoreError."""
        yield from judged([self.record(trial) for trial in sorted(self.finished())], count=self.counts_disturbed)

    def readable_records(
        self, faults: list[str], *, without: Collection[str] = (), keep: Callable[[TrialRecord], TrialRecord] = lambda record: record
    ) -> Iterator[TrialRecord]:
        """Yield the records of all finished trials, judged. Damaged records are left out and added to `faults`. Raises NewerRun.

        Records are read without the parts in `without`. `keep` is applied to each record, to reduce what is kept in memory.
        """
        records, reader = [], RecordReader(without)
        for trial, folder in sorted(self._finished()):
            try:
                records.append(keep(read_record(folder, trial, reader)))
            except NewerRun:
                raise
            except StoreError as error:
                faults.append(str(error))
        yield from judged(records, count=self.counts_disturbed)

    @property
    def counts_disturbed(self) -> bool:
        """True if disturbed trials count in the experiment. Raises StoreError."""
        experiment = self.resolved.get("experiment")
        return isinstance(experiment, dict) and experiment.get("disturbed") == "count"

    def attempts(self) -> list[Attempt]:
        """Return the attempts that were set aside, in the order of trials and attempts."""
        return list(attempts_in(self.path))

    def set_aside(self, trial: int, reason: AttemptReason) -> Attempt:
        """Keep a finished trial as an attempt that does not count, so that the trial can be done again. Raises StoreError."""
        return set_aside(self.path, trial, reason)

    def set_aside_records(self) -> list[tuple[AttemptReason, TrialRecord]]:
        """Return the reason and the record of each attempt that was set aside. Raises NewerRun, StoreError."""
        pairs = [(a.reason, read_record(a.folder, a.trial)) for a in self.attempts()]
        return [
            (reason, as_disturbed(record, "the other trials of its cell were calmer"))
            if reason is AttemptReason.DISTURBED and record.status == "measured"
            else (reason, record)
            for reason, record in pairs
        ]

    def details(self, trial: int) -> TrialDetails:
        """Return the histograms and commands of a finished trial; empty if there are none. Raises StoreError."""
        return details_in(trial_folder(self.path, trial))

    def samples_path(self, trial: int) -> Path | None:
        """Return the path of a trial's time series; None if nothing was watched."""
        path = trial_folder(self.path, trial) / "samples.parquet"
        return path if path.is_file() else None

    @property
    def is_closed(self) -> bool:
        """True if the run has its manifest, so that no further file is added."""
        return (self.path / MANIFEST).exists()

    def write_manifest(self) -> Path:
        """Close the run with its manifest. A closed, unchanged run is left as it is. Raises AlreadyWritten, StoreError."""
        self.remove_leftovers()
        path = self.path / MANIFEST
        if path.exists() and self.verify_manifest().none:
            return path
        if self._sync is Sync.AT_END:
            os.sync()
        try:
            write_once(path, manifest_of(self.path))
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read: {error}") from error
        return path

    def remove_leftovers(self) -> None:
        """Remove the temporary files of killed writers. The caller holds the lock on the journal, so no other process writes."""
        for folder, _, names in os.walk(self.path):
            for name in filter(is_temporary, names):
                Path(folder, name).unlink(missing_ok=True)

    def verify_manifest(self) -> ManifestDifference:
        """Return the changes since the run was closed. Raises StoreError if it was never closed."""
        return compare(self.path)

    def _finished(self) -> list[tuple[int, str]]:
        return [(trial, folder) for trial, folder in self._trials() if os.path.isfile(f"{folder}/record.json")]  # noqa: PTH113 -- as below

    def _trials(self) -> list[tuple[int, str]]:
        """Return the number and the folder of each trial, as text: objects of pathlib take longer than a file's `stat`."""
        try:
            with os.scandir(self.path / "trials") as entries:
                return [(trial, e.path) for e in entries if (trial := trial_of(e.name)) is not None and e.is_dir()]
        except OSError as error:
            raise StoreError(f"{self.path / 'trials'}: cannot be read: {error.strerror}", remedy=CHANGED) from error


def _write_next(folder: Path, name: str, value: Mapping[str, Any]) -> Path:
    """Write NAME.json, or NAME~2.json and so on if earlier files exist. Return the path."""
    earlier = len(list(folder.glob(f"{name}~*.json"))) + (folder / f"{name}.json").exists()
    path = folder / (f"{name}~{earlier + 1}.json" if earlier else f"{name}.json")
    write_once(path, as_json(value))
    return path

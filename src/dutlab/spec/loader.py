"""Reader of input files. A faulty file is refused completely, with every fault as `file:line:column: path: what`.

Any bytes lead to a model or to SpecRefused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from dutlab.errors import Fault, FaultKind, SpecRefused
from dutlab.outside import DASH, STANDARD_INPUT, AtPipe
from dutlab.spec import overrides as sets
from dutlab.spec.drive_models import rate_drives, with_models
from dutlab.spec.experiment import Experiment, LabRef, TestbedPath
from dutlab.spec.fits import incompatibilities
from dutlab.spec.lab_files import lab_testbed
from dutlab.spec.model import FILE_CONTEXT, SpecModel, plain_faults
from dutlab.spec.shape import TestbedShape
from dutlab.spec.testbed import Testbed
from dutlab.spec.yaml_source import Source, folder_of, parse, read_file

_M = TypeVar("_M", bound=SpecModel)


def load_testbed(path: Path) -> Testbed:
    """Read the testbed in `path`. Raises SpecRefused."""
    return given_testbed(read_file(path), path)


def given_testbed(text: bytes, path: Path) -> Testbed:
    """Return the testbed in `text`, which was read from `path`. Raises SpecRefused."""
    source = parse(text, str(path))
    unrated = rate_drives(source, path)
    testbed, faults = _model(Testbed, source)
    faults += unrated
    if testbed is None or faults:
        raise SpecRefused(faults)
    return testbed


def load_experiment(path: Path, overrides: Sequence[str] = (), *, testbed: Path | None = None) -> Experiment:
    """Read the experiment in `path`, apply each `KEY=VALUE` of `overrides`, and check it against its testbed.

    `testbed` replaces the testbed that the file names, and may be a pipe. It is relative to the working directory; the path in the file is
    relative to the file. The faults of a testbed file are reported with the experiment's. Raises SpecRefused.
    """
    return experiment_of(read_file(path), path, overrides, testbed=testbed)


@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment with the bytes of its files. Each file is read once, so the archived text is the one that is carried out."""

    experiment: Experiment
    text: bytes
    """Text of the experiment file, without overrides."""
    testbed: Testbed | None = None
    """Testbed of the experiment; None for an embedded lab."""
    testbed_text: bytes | None = None


def read_experiment(path: Path, overrides: Sequence[str] = ()) -> LoadedExperiment:
    """Read the experiment in `path` and its testbed as load_experiment does, and keep their bytes. Raises SpecRefused."""
    return given_experiment(read_file(path), path, overrides)


def given_experiment(text: bytes, path: Path, overrides: Sequence[str] = (), *, testbed: Path | None = None) -> LoadedExperiment:
    """Load an experiment from `text`, which was read already or written by a command.

    Raises SpecRefused with every fault.
    """
    source = parse(text, str(path))
    faults = sets.apply(source, overrides)
    if testbed is not None and isinstance(source.data, dict):
        source.data["testbed"] = str(STANDARD_INPUT if testbed == DASH else testbed.absolute())
    experiment, wrong = _model(Experiment, source)
    faults += wrong
    bed, read, wrong = _bed(source, path, AtPipe.REFUSED if testbed is None else AtPipe.READ)
    faults += wrong
    if bed is not None and isinstance(source.data, Mapping):
        faults += [source.fault(loc, what, FaultKind.UNFIT) for loc, what in incompatibilities(source.data, bed)]
    if experiment is None or faults:
        raise SpecRefused(faults)
    return LoadedExperiment(experiment, text, *read)


def experiment_of(text: bytes, path: Path, overrides: Sequence[str] = (), *, testbed: Path | None = None) -> Experiment:
    """Return only the experiment. Raises SpecRefused."""
    return given_experiment(text, path, overrides, testbed=testbed).experiment


def testbed_of(given: LoadedExperiment) -> Testbed:
    """Return the testbed that an experiment names, without touching its hosts. Raises LabError."""
    named = given.experiment.testbed
    if isinstance(named, LabRef):
        return named.placed(lab_testbed(named.lab))
    assert given.testbed is not None  # noqa: S101 - the loader reads every testbed file that an experiment names
    return given.testbed


def path_of_testbed(experiment_file: Path, ref: TestbedPath) -> Path:
    """Return the path of the testbed file that an experiment file names."""
    return folder_of(experiment_file) / ref.path


def _model(model: type[_M], source: Source) -> tuple[_M | None, list[Fault]]:
    try:
        return model.model_validate(source.data, context=FILE_CONTEXT), []
    except ValidationError as error:
        return None, [source.fault(*of) for of in plain_faults(error)]


def _bed(source: Source, path: Path, pipes: AtPipe) -> tuple[TestbedShape | None, tuple[Testbed, bytes] | tuple[()], list[Fault]]:
    """Return the shape of the experiment's testbed, or None if it is unknown; the contents of a testbed file; and faults."""
    ref = source.data.get("testbed") if isinstance(source.data, Mapping) else None
    if isinstance(ref, Mapping) and isinstance(ref.get("lab"), str):
        return TestbedShape.of_lab(ref["lab"]), (), []
    if not isinstance(ref, str) or not ref:
        return None, (), []
    file = path_of_testbed(path, TestbedPath(path=ref))
    try:
        text = read_file(file, pipes)
        testbed = given_testbed(text, file)
    except SpecRefused as refused:
        unread = [f for f in refused.faults if f.kind is FaultKind.UNREADABLE]
        if unread:  # the name is wrong, and it is in the experiment
            return None, (), [source.fault(("testbed",), f"{unread[0].file} {unread[0].what}", FaultKind.UNREADABLE)]
        return None, (), refused.faults
    return TestbedShape.of_testbed(testbed), (testbed, with_models(text, file)), []

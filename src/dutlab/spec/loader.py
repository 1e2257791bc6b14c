"""Reads input files. A file is refused whole, with every fault as `file:line:column: path: what`; any bytes end here or in a model."""

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
from dutlab.spec.lab_files import description
from dutlab.spec.model import FILE_CONTEXT, SpecModel, plain_faults
from dutlab.spec.shape import TestbedShape
from dutlab.spec.testbed import Testbed
from dutlab.spec.yaml_source import Source, folder_of, parse, read_file

_M = TypeVar("_M", bound=SpecModel)


def load_testbed(path: Path) -> Testbed:
    """The testbed in `path`. Raises SpecRefused."""
    return given_testbed(read_file(path), path)


def given_testbed(text: bytes, path: Path) -> Testbed:
    """The testbed in a `text` that was read from `path`. Raises SpecRefused."""
    source = parse(text, str(path))
    unrated = rate_drives(source, path)
    testbed, faults = _model(Testbed, source)
    faults += unrated
    if testbed is None or faults:
        raise SpecRefused(faults)
    return testbed


def load_experiment(path: Path, overrides: Sequence[str] = (), *, testbed: Path | None = None) -> Experiment:
    """The experiment in `path`, with each `KEY=VALUE` of `overrides` put in first, and checked against its testbed.

    `testbed` replaces the testbed that the file names; it is relative to the working directory, as the file's own is to the file.
    It may be a pipe. A testbed file is read too, and its faults are reported with the experiment's. Raises SpecRefused.
    """
    return experiment_of(read_file(path), path, overrides, testbed=testbed)


@dataclass(frozen=True)
class LoadedExperiment:
    """An experiment with the bytes that it was read from. Each file is read once, so what is archived is what is carried out."""

    experiment: Experiment
    text: bytes
    """Text of the experiment as given, without overrides."""
    testbed: Testbed | None = None
    """None for an embedded lab."""
    testbed_text: bytes | None = None


def read_experiment(path: Path, overrides: Sequence[str] = ()) -> LoadedExperiment:
    """The experiment in `path` and its testbed, as load_experiment reads them, with their bytes. Raises SpecRefused."""
    return given_experiment(read_file(path), path, overrides)


def given_experiment(text: bytes, path: Path, overrides: Sequence[str] = (), *, testbed: Path | None = None) -> LoadedExperiment:
    """Load an experiment from a `text` that was read already, or that a command wrote.

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
    """The experiment alone. Raises SpecRefused."""
    return given_experiment(text, path, overrides, testbed=testbed).experiment


def testbed_of(given: LoadedExperiment) -> Testbed:
    """The testbed that an experiment names, without touching it. Raises LabError."""
    named = given.experiment.testbed
    if isinstance(named, LabRef):
        return named.placed(description(named.lab).testbed)
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
    """Return the testbed that the experiment must fit, as far as the file says which it means; of a testbed file also its contents."""
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
        if unread:  # the fault is the name, and that is in the experiment
            return None, (), [source.fault(("testbed",), f"{unread[0].file} {unread[0].what}", FaultKind.UNREADABLE)]
        return None, (), refused.faults
    return TestbedShape.of_testbed(testbed), (testbed, with_models(text, file)), []

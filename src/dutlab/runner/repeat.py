"""Work of an old run folder, to be repeated as a new run."""

from __future__ import annotations

from pathlib import Path

from dutlab import outside
from dutlab.bounds import INPUT
from dutlab.errors import InputError
from dutlab.plan.plan import Plan
from dutlab.plan.trials import make_plan
from dutlab.runner.recovery import testbed_in
from dutlab.runner.run import Work, with_environment
from dutlab.runner.trust import insist_on_resume
from dutlab.spec.experiment import Experiment
from dutlab.spec.testbed import Testbed
from dutlab.store.manifest import MANIFEST
from dutlab.store.read import reading
from dutlab.store.run_folder import RunFolder

_NEEDED = frozenset(("experiment.yaml", "testbed.yaml", "resolved.json", "plan.json"))
"""Files of a run that its repetition needs. A copy in which secrets in these are covered would measure something else."""


def to_repeat(path: Path, *, testbed: tuple[Testbed, bytes] | None, trusted: bool) -> Work:
    """Return the work of a run, to be repeated on its testbed or on another one, `testbed`, given with the bytes of its file.

    The run's testbed keeps trials and order; another testbed keeps the seed. Nothing is changed on disk. Raises NotOurs unless `trusted`,
    InputError if the folder is not a run or was changed after the run's end, StoreError.
    """
    folder = RunFolder.open(path)
    if folder.is_closed and not ((changed := folder.verify_manifest()).none_but_redacted and _NEEDED.isdisjoint(changed.redacted)):
        raise InputError(f"{path}: was changed since it ended: {changed}", remedy=f"restore it from a copy; {MANIFEST} has its hash")
    with reading(path):
        if not trusted:
            insist_on_resume(folder, ())
        plan, own = Plan.from_json(folder.plan), testbed_in(folder)
        experiment = with_environment(Experiment.model_validate(folder.resolved["experiment"]))
        text = outside.read(path / "experiment.yaml", INPUT)
        if testbed is None:
            bed, bed_text = own, outside.read(path / "testbed.yaml", INPUT) if (path / "testbed.yaml").exists() else None
            return Work(experiment, bed, plan, text, bed_text)
    bed, bed_text = testbed
    _insist_on_links(bed, own, path)
    return Work(experiment, bed, make_plan(experiment, bed, seed=plan.seed), text, bed_text)


def _insist_on_links(bed: Testbed, own: Testbed, path: Path) -> None:
    """Raise InputError if the other testbed lacks a link of the run's testbed."""
    if absent := [name for name in own.links if name not in bed.links]:
        raise InputError(
            f"testbed {bed.name} has no link {', '.join(absent)}, and {path.name} has", remedy="name its links as the run does"
        )

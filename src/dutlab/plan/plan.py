"""An experiment's trials in their order, as in plan.json. `trials.py` makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from dutlab.plan.cell import Cell
from dutlab.spec.repeats import RepeatUntil


class Trial(BaseModel):
    """One measurement to be made."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    number: Annotated[int, Field(ge=1)]
    """From 1, in the order of the plan."""
    cell: Cell
    group: Annotated[int, Field(ge=1)]
    """One application of a mode; all trials of a group follow one another."""
    estimate_s: float
    ceilings: Annotated[dict[str, dict[str, float]], Field(default_factory=dict)]
    """Link → name → the most that its speed allows; empty where no speed is known."""


class Plan(BaseModel):
    """Every trial of an experiment in its order. `to_json` is what plan.json holds."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    schema_version: Literal[4] = 4
    experiment: str
    testbed: str
    order: Literal["shuffled", "as-written"]
    seed: int
    estimate_s: float
    """Estimate for the whole run, pauses for a person included."""
    hand_factors: tuple[str, ...] = ()
    """Factors that a person sets."""
    expensive_factors: tuple[str, ...] = ()
    """Factors that commands set, as seldom as a person would."""
    repeat_rule: RepeatUntil | None = None
    """Under a rule `trials` has as many repeats as it allows, and `estimate_s` is of all; those that it makes needless are left out."""
    repeat_disturbed: int = 2
    """So often is a trial that other work disturbed done again; `estimate_s` is without these."""
    trials: tuple[Trial, ...]

    @property
    def cells(self) -> int:
        """Number of cells; trials are their repeats."""
        return sum(1 for trial in self.trials if trial.cell.repeat == 1)

    @property
    def generators(self) -> tuple[str, ...]:
        """Kinds of generators other than the engine, each once."""
        models = (trial.cell.generator for trial in self.trials)
        return tuple(dict.fromkeys(model.kind for model in models if model is not None))

    def to_json(self) -> dict[str, Any]:
        """Return plain data for plan.json."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the output of to_json(). Raises pydantic.ValidationError on anything else."""
        return cls.model_validate(data)

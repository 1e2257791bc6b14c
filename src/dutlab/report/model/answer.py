"""The answer of a run: how fast, how sure, what limited it, what next. Every page and the terminal begin or end with it."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.report.model.table import Table


@dataclass(frozen=True)
class NextStep:
    """What to do next."""

    words: str
    """A sentence."""
    command: str = ""
    """Ready to paste, with the run by its name; empty where no command of ours does it."""


@dataclass(frozen=True)
class Answer:
    """Sentences, each whole by itself, and the tables behind them."""

    fast: tuple[str, ...]
    """How fast: a sentence a question; or why there is no result."""
    sure: tuple[str, ...]
    """How well repeats agree, how many trials have no result, and every severe doubt."""
    limited: str
    """What limited the results; empty where nothing is known of that, as of latencies."""
    next: tuple[NextStep, ...]
    """The first of them is the most useful."""
    tables: tuple[Table, ...]
    """A row a result with what limited it; where modes were measured at several places, a row a mode and a column a place."""

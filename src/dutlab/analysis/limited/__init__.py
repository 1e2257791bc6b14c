"""Limits of results: one verdict per result, with its evidence."""

from dutlab.analysis.limited.facts import Core, Facts, Neighbour
from dutlab.analysis.limited.finding import Confidence, LimitCause, LimitFinding
from dutlab.analysis.limited.forwarding import limit_of_result
from dutlab.analysis.limited.storage import ArrayFacts, Subset, limit_of_array

__all__ = [
    "ArrayFacts",
    "Confidence",
    "Core",
    "Facts",
    "LimitCause",
    "LimitFinding",
    "Neighbour",
    "Subset",
    "limit_of_array",
    "limit_of_result",
]

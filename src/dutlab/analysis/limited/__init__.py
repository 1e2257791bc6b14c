"""Limits of results: one verdict per result, with its evidence."""

from dutlab.analysis.limited.finding import Confidence, LimitCause, LimitFinding
from dutlab.analysis.limited.forwarding import Core, Facts, Neighbour, what_limited
from dutlab.analysis.limited.storage import ArrayFacts, Subset, what_limited_array

__all__ = [
    "ArrayFacts",
    "Confidence",
    "Core",
    "Facts",
    "LimitCause",
    "LimitFinding",
    "Neighbour",
    "Subset",
    "what_limited",
    "what_limited_array",
]

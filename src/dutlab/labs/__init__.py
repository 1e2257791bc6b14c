"""Embedded labs: testbeds of network namespaces, so that dutlab can be tried without hardware."""

from __future__ import annotations

from dutlab.labs.direct import cable_undo, direct_links
from dutlab.labs.lab import Lab, StandingLab, attach, down, programs, revive, standing, up, used
from dutlab.labs.lost_guests import Guests, LabGone, naming_ended_guests
from dutlab.labs.state import new_label
from dutlab.spec.lab_files import LabDescription, description, lab_names

__all__ = [
    "Guests",
    "Lab",
    "LabDescription",
    "LabGone",
    "StandingLab",
    "attach",
    "cable_undo",
    "description",
    "direct_links",
    "down",
    "lab_names",
    "naming_ended_guests",
    "new_label",
    "programs",
    "revive",
    "standing",
    "up",
    "used",
]

"""Transceivers: parsers for each system's output, and checks against the module's own thresholds."""

from dutlab.systems.optics.ethtool import of_ethtool
from dutlab.systems.optics.ifconfig import of_freebsd, of_openbsd
from dutlab.systems.optics.optic import Optic, OpticFinding, dbm, readable

__all__ = ["Optic", "OpticFinding", "dbm", "of_ethtool", "of_freebsd", "of_openbsd", "optic_of"]


def optic_of(text: str) -> Optic | None:
    """Parse the output of any known system's command. None where it shows no module."""
    optic = of_ethtool(text) or of_freebsd(text) or of_openbsd(text)
    return None if optic is None else readable(optic)

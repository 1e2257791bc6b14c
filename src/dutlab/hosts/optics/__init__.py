"""Transceivers: what each system prints of them, the pages they hold, and a judgement by their own thresholds."""

from dutlab.hosts.optics.cmis import of_cmis
from dutlab.hosts.optics.ethtool import of_ethtool
from dutlab.hosts.optics.ifconfig import of_freebsd, of_openbsd
from dutlab.hosts.optics.optic import Optic, OpticFinding, dbm
from dutlab.hosts.optics.pages import of_dump, of_sff8472, of_sff8636

__all__ = [
    "Optic",
    "OpticFinding",
    "dbm",
    "of_cmis",
    "of_dump",
    "of_ethtool",
    "of_freebsd",
    "of_openbsd",
    "of_sff8472",
    "of_sff8636",
    "optic_of",
]


def optic_of(text: str) -> Optic | None:
    """What a system's own command printed, whichever system it was. None when it tells of no module."""
    return of_ethtool(text) or of_freebsd(text) or of_openbsd(text)

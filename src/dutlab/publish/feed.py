"""Atom feed of the newest runs (RFC 4287)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote
from xml.etree import ElementTree as ET

from dutlab.printable import printable
from dutlab.publish.site_run import SiteRun

NEWEST = 50
_ATOM = "http://www.w3.org/2005/Atom"
_NO_TIME = "1970-01-01T00:00:00Z"


def atom(title: str, url: str, runs: Sequence[SiteRun]) -> bytes:
    """Return the feed. `runs` are sorted, oldest first. `url` ends in a slash; if it is empty, links are relative to the feed."""
    newest = [run for run in reversed(runs) if run.manifest][:NEWEST]
    feed = ET.Element("feed", xmlns=_ATOM)
    _add(feed, "title", title)
    _add(feed, "id", url or f"urn:sha256:{newest[-1].manifest if newest else '0'}")
    _add(feed, "updated", max((_moment(run.ended) for run in newest), default=_NO_TIME))
    ET.SubElement(feed, "link", rel="self", href=f"{url}feed.xml")
    ET.SubElement(feed, "link", rel="alternate", href=f"{url}index.html")
    _add(ET.SubElement(feed, "author"), "name", title)
    for run in newest:
        entry = ET.SubElement(feed, "entry")
        _add(entry, "title", f"{run.device}: {run.experiment}")
        _add(entry, "id", f"urn:sha256:{run.manifest}")
        _add(entry, "updated", _moment(run.ended))
        ET.SubElement(entry, "link", rel="alternate", href=f"{url}{quote(run.page)}")
        _add(entry, "summary", " ".join(run.fast[:3]) or "See the tables.")
    written: bytes = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return written


def _add(parent: ET.Element, tag: str, text: str) -> None:
    ET.SubElement(parent, tag).text = printable(text)


def _moment(text: str) -> str:
    """Return `2026-11-21 08:01:00 UTC` in the form of RFC 3339."""
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return _NO_TIME

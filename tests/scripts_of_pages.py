"""The scripts of a page: the two that dutlab wrote and the numbers of figures, and nothing else."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from dutlab.report.pages.html import script, script_hash, sort_hash, sort_script


class _Scripts(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            self.found.append((dict(attrs), ""))
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            attrs, text = self.found.pop()
            self.found.append((attrs, text + data))


def foreign_scripts(text: str) -> list[str]:
    """Script elements of a page that are neither a script whose hash its policy names nor the numbers of a figure."""
    page = _Scripts(text)
    out = []
    for attrs, inside in page.found:
        if attrs == {"id": "figures"} and inside == script() and f"script-src '{script_hash()}';" in page.policy:
            continue
        if attrs == {} and inside == sort_script() and f"script-src '{sort_hash()}';" in page.policy:
            continue
        if attrs == {"type": "application/json"} and {"x", "lines", "views"} <= set(json.loads(inside)):
            continue
        out.append(inside)
    return out

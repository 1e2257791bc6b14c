"""What pages look like, asked in JavaScript."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from browser.chromium import Chromium
from capability import need

CONTRASTS = """
(() => {
  const canvas = (colour) => { const m = colour.match(/[\\d.]+/g).map(Number), srgb = colour.startsWith('color(srgb');
    return m.length > 3 && m[3] === 0 ? null : [...m.slice(0, 3).map((v) => srgb ? 255 * v : v), m.length > 3 ? m[3] : 1]; };
  const light = (c) => { const f = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = canvas(getComputedStyle(e).backgroundColor);
    if (c && c[3] < 1) { const under = behind(e.parentElement); return c.slice(0, 3).map((v, i) => c[3] * v + (1 - c[3]) * under[i]); }
    if (c) return c; } return [255, 255, 255]; };
  const out = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest('style, title, desc')) continue;
    const style = getComputedStyle(e), drawn = e.namespaceURI.endsWith('svg');
    const a = light(canvas(drawn ? style.fill : style.color)), b = light(behind(e));
    out.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.textContent.trim().slice(0, 40)]);
  }
  return out;
})()
"""
"""[contrast ratio (WCAG 2.1, 1.4.3), words] of every text of a page."""

_AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"


UNFOLD = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
"""Opens everything that a page shows folded."""


def faults_of_access(browser: Chromium) -> list[tuple[str, str]]:
    """What axe-core finds on the page that is open, of any impact: the rule and the first element. Skips the test without axe-core."""
    need("axe", _AXE.exists())  # `npm ci --ignore-scripts --prefix tests/browser` brings it
    browser.evaluate(f"{_AXE.read_text(encoding='utf-8')}; 0")
    found = browser.send(
        "Runtime.evaluate", awaitPromise=True, returnByValue=True,
        expression="axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes[0].html]))",
    )  # fmt: skip
    assert "exceptionDetails" not in found, found
    return [(str(rule), str(element)) for rule, element in found["result"]["value"]]


ALL_LOOKS = tuple((width, scheme) for width in (390, 1280, 1920) for scheme in ("light", "dark"))
"""Width of the window and colour scheme."""


def faults_everywhere(
    browser: Chromium, pages: Iterable[Path | str], looks: Iterable[tuple[int, str]] = ALL_LOOKS
) -> dict[tuple[str, int, str], list[tuple[str, str]]]:
    """Page, width and colour scheme → what axe-core finds there."""
    found = {}
    for page in pages:
        for width, scheme in looks:
            browser.open(page, width=width, scheme=scheme)
            if faults := faults_of_access(browser):
                found[str(page), width, scheme] = faults
    return found


_KEYS = {"Tab": 9, "Enter": 13, " ": 32}


def press(browser: Chromium, key: str) -> None:
    """One key as the keyboard sends it, to what has the focus."""
    text = {"Enter": "\r", "Tab": ""}.get(key, key)
    for kind in ("keyDown", "keyUp"):
        browser.send(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=_KEYS[key],
            **({"text": text} if text and kind == "keyDown" else {}),
        )


def reached_by_tab(browser: Chromium, most: int = 400) -> set[int]:
    """The numbers, in the order of the page, of what the Tab key reaches from its beginning, of all that a mouse can use."""
    browser.evaluate(f"window.usable = {_USABLE}; document.activeElement?.blur(); 0")
    seen = set[int]()
    for _ in range(most):
        press(browser, "Tab")
        at = int(browser.evaluate("window.usable.indexOf(document.activeElement)"))
        if at >= 0 and at in seen:
            break
        seen |= {at} - {-1}
    return seen


_USABLE = """[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
  .filter((e) => !e.disabled && e.checkVisibility({visibilityProperty: true}) && !e.closest('details:not([open]) > :not(summary)'))"""
USABLE_COUNT = f"{_USABLE}.length"
"""How many elements of a page a mouse can use."""
UNSEEN_FOCUS = """(() => { const s = getComputedStyle(document.activeElement);
  return s.outlineStyle === 'none' && s.boxShadow === 'none'; })()"""
"""Whether what has the focus does not show it."""

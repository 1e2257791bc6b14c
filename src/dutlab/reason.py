"""Reason why a program failed, found in its output. It may be on any line; the last lines are often only a usage text."""

from __future__ import annotations

import errno
import os
import re
from functools import cache

MOST = 200
"""Most characters of a program's output in a message; the raw files have the whole output."""
_SAYS_SO = (
    r"\b(?:error|fail(?:ed|ure|s)?|cannot|can't|could(?: not|n't)|unable|refus\w+|denied|forbidden|invalid|illegal|unknown|unrecogni[sz]ed"
    r"|unsupported|not (?:supported|valid|allowed|permitted)|missing|not found|no such|does(?: not|n't) exist|fatal|panic|exception|bad"
    r"|must be|killed|aborted|segmentation fault|too (?:long|large|small|many|few|old))\b"
)
_NO_REASON = r"\s{4,}|\t|\s*(?:usage\b|options?:|--?[A-Za-z0-9]|\[-|warning\b)"
"""Beginnings of lines that give no reason: usage text and warnings."""
_TRACEBACK = "Traceback (most recent call last):"


def reason_in(text: str) -> str:
    """Return the reason in a program's output, as one line; the end of `text` where no line gives one, empty for an empty text."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if _TRACEBACK in text:
        at = max(n for n, line in enumerate(lines) if _TRACEBACK in line)
        if raised := next((line for line in lines[at + 1 :] if not line[0].isspace()), ""):
            return shortened(raised)
    candidates = [line for line in lines if not re.match(_NO_REASON, line, re.IGNORECASE)]
    for pattern in (_of_system(), re.compile(_SAYS_SO, re.IGNORECASE)):
        if reason := next((line for line in candidates if pattern.search(line)), ""):
            return shortened(reason)
    return " ".join(" ".join(lines).split())[-MOST:]


def shortened(line: str) -> str:
    """Return a line of a program's output, cut to MOST characters for a message."""
    words = " ".join(line.split())
    return words if len(words) <= MOST else f"{words[: MOST - 1]}…"


@cache
def _of_system() -> re.Pattern[str]:
    """Return a pattern of the system's error messages (errno), the most reliable reasons."""
    words = {os.strerror(number) for number in errno.errorcode} | {"Name or service not known", "Temporary failure in name resolution"}
    return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)

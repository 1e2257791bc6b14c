"""Why a program failed, in what it printed: the line that says so, wherever it is, and not the last words, which may be its usage text."""

from __future__ import annotations

import errno
import os
import re
from functools import cache

MOST = 200
"""Characters of a program's words that go into a message; the whole goes into the raw files."""
_SAYS_SO = re.compile(
    r"\b(?:error|fail(?:ed|ure|s)?|cannot|can't|could(?: not|n't)|unable|refus\w+|denied|forbidden|invalid|illegal|unknown|unrecogni[sz]ed"
    r"|unsupported|not (?:supported|valid|allowed|permitted)|missing|not found|no such|does(?: not|n't) exist|fatal|panic|exception|bad"
    r"|must be|killed|aborted|segmentation fault|too (?:long|large|small|many|few|old))\b",
    re.IGNORECASE,
)
_NO_REASON = re.compile(r"\s{4,}|\t|\s*(?:usage\b|options?:|--?[A-Za-z0-9]|\[-|warning\b)", re.IGNORECASE)
"""Lines of a usage text, or that only warn."""
_TRACEBACK = "Traceback (most recent call last):"


def reason_in(text: str) -> str:
    """On one line; where no line says a reason, the end of the text; empty of an empty one."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if _TRACEBACK in text:
        at = max(n for n, line in enumerate(lines) if _TRACEBACK in line)
        if raised := next((line for line in lines[at + 1 :] if not line[0].isspace()), ""):
            return shortened(raised)
    candidates = [line for line in lines if not _NO_REASON.match(line)]
    for pattern in (_of_system(), _SAYS_SO):
        if reason := next((line for line in candidates if pattern.search(line)), ""):
            return shortened(reason)
    return " ".join(" ".join(lines).split())[-MOST:]


def shortened(line: str) -> str:
    """Return a line of a program's output for a message: at most MOST characters."""
    words = " ".join(line.split())
    return words if len(words) <= MOST else f"{words[: MOST - 1]}…"


@cache
def _of_system() -> re.Pattern[str]:
    """The words that a system call's failure has (errno), the surest that a program can say."""
    words = {os.strerror(number) for number in errno.errorcode} | {"Name or service not known", "Temporary failure in name resolution"}
    return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)

"""IMIX genomes: sequences of frame sizes, with FCS, written as letters (RFC 6985).

`aaafg` is three frames of 64 bytes, one of 1280 and one of 1518. In the RFC's run-length form, a number repeats the letter after it:
`40a20fg`. `z`, the MTU, and upper-case letters have sizes that the user must state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from dutlab.errors import FaultKind
from dutlab.spec.model import ValueFault

LETTERS: Mapping[str, int] = MappingProxyType(
    {"a": 64, "b": 128, "c": 256, "d": 512, "e": 1024, "f": 1280, "g": 1518, "h": 2112, "i": 9000, "j": 16000}
)
"""Letter → frame size in bytes with FCS (RFC 6985 section 3)."""
LONGEST_SEQUENCE = 1 << 16
_RUN = r"(?a)(\d*)(\D)"
_PLAIN = r"(?a)(\d*[a-j])+"


def looks_like_genome(text: str) -> bool:
    """Return whether `text` has the form of a genome of letters with a fixed size."""
    return re.fullmatch(_PLAIN, text) is not None


def read_genome(genome: str, table: Mapping[str, int] = MappingProxyType({})) -> tuple[int, ...]:
    """Return the sizes in order; `table` has the sizes of `z` and of upper-case letters. Raises ValueError with the fault."""
    sizes: list[int] = []
    end = 0
    for run in re.finditer(_RUN, genome):
        times, letter, end = run[1], run[2], run.end()
        count = int(times[:6]) if times else 1
        if count == 0:
            raise ValueError(f"{times + letter!r} repeats nothing; write a number above 0 before a letter, as in 40a")
        if len(sizes) + count > LONGEST_SEQUENCE:
            raise ValueFault(f"the genome is longer than {LONGEST_SEQUENCE} frames", FaultKind.RANGE)
        sizes += [_size(letter, table)] * count
    if end < len(genome):
        raise ValueError(f"{genome[end:]!r} repeats nothing; write a letter behind it, as in 40a")
    if not sizes:
        raise ValueFault("empty; write letters, as in aaafg", FaultKind.MISSING)
    if useless := [letter for letter in table if letter not in genome or not _can_be_stated(letter)]:
        raise ValueError(f"a size is stated for {useless[0]!r}, but the genome does not use it, or RFC 6985 states it")
    return tuple(sizes)


def _size(letter: str, table: Mapping[str, int]) -> int:
    if letter in LETTERS:
        return LETTERS[letter]
    if not _can_be_stated(letter):
        known = " ".join(f"{a}={size}" for a, size in LETTERS.items())
        raise ValueError(f"{letter!r} is not a letter of a genome (known: {known}, z and A to Z as stated)")
    if letter not in table:
        what = "the MTU" if letter == "z" else "your own size"
        raise ValueError(f"{letter} is {what}: state its frame size with FCS, as in table: {{{letter}: 1518}}")
    return table[letter]


def _can_be_stated(letter: str) -> bool:
    return letter == "z" or (len(letter) == 1 and "A" <= letter <= "Z")

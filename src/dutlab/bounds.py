"""Bounds of what others supply: sizes of files, lengths of outputs, numbers and waits at each door, with a reason each.

`outside.py` alone reads files from outside, by a FileBound. Every other door takes its bound from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_KIB, _MIB = 1 << 10, 1 << 20


class FileBound(NamedTuple):
    """The most that a file of a kind may hold."""

    what: str
    most_bytes: int
    why: str


RECORD: Final = FileBound(
    "record of a trial", 16 * _MIB, "800 times a usual one, which has 12 to 22 kB; parsed, it takes 40 times its size"
)
DETAILS: Final = FileBound("details of a trial", 64 * _MIB, "histograms and commands have 10 to 200 kB; one trial is read at a time")
PLAN: Final = FileBound("plan of a run", 32 * _MIB, "45,000 trials of 700 bytes each")
PART: Final = FileBound("part of a run folder", 8 * _MIB, "facts of a host with 500 interfaces have 2 MB")
JOURNAL: Final = FileBound("journal", 256 * _MIB, "3 kB a trial: 80,000 trials")
MANIFEST: Final = FileBound("manifest", 64 * _MIB, "100 bytes a file: 100,000 trials with 6 files each")
EVENTS: Final = FileBound("file of events", 1 << 30, "a soak with ten sensors writes 170 MB a day; it is read line by line")
CAMPAIGN: Final = FileBound("file of a campaign", 64 * _MIB, "100,000 planned runs of 600 bytes each")
RAW: Final = FileBound("file of a run", 16 << 30, "a capture of some minutes at 1 Gbit/s; it is hashed and copied, not held")
ADDITION: Final = FileBound("addition to a run", 64 * _MIB, "a person adds notes, pictures and logs; a report holds them in memory")
INPUT: Final = FileBound("file that a user writes", 256 * _KIB, "an experiment or testbed is some pages")
RULES: Final = FileBound("rule set", 4 * _MIB, "50,000 rules of 80 bytes")
XDP_OBJECT: Final = FileBound("XDP program", 4 * _MIB, "a large one has some hundred kB with its types")
TABLE: Final = FileBound("table of figures", 16 * _MIB, "100,000 lines of a reviewer")
COMMIT_FILE: Final = FileBound(
    "file of a commit", 256 * _MIB, "a kernel with every driver built in and its symbols; also a list of two million commits"
)
CARD: Final = FileBound("claim card", 4 * _MIB, "a card of a thousand cells takes half of it")
SITE_INDEX: Final = FileBound("index of a site", 64 * _MIB, "a run takes about a thousand bytes; parsed, it takes 20 times its size")
IMPORT: Final = FileBound(
    "file of another tool", 64 * _MIB, "an hour of 32 streams of iperf3 stays below; parsed, it takes 10 times its size"
)
SAMPLE_ROWS: Final = 20_000_000
"""Samples of one trial: a day of 230 series, one a second. They are sorted in DATABASE_MEMORY and then streamed."""
DATABASE_MEMORY: Final = "2GB"
"""Memory of DuckDB for our own questions and the user's; it writes no temporary files."""

SECRET_BYTES: Final = 64 * _KIB
"""A key, or a certificate with its key."""
EVENT_LINE_BYTES: Final = _MIB
"""One event: a few hundred bytes, and with every reading of a host some kilobytes. A longer line is skipped."""

QUESTION_BYTES: Final = 16 * _MIB
"""Most bytes of a host's answer to one question; facts of a host with 500 interfaces have 2 MB. More is counted and not kept."""
OUTPUT_BYTES: Final = 64 * _MIB
"""Most output of a measuring program, or a step; an hour of 32 streams of iperf3 stays below. More is counted and not kept."""
LINE_BYTES: Final = 64 * _MIB
"""Most bytes of one line: a generator's report with its histograms is one."""
FETCHED_BYTES: Final = 256 * _MIB
"""A file that is fetched from a host whole: fio's log of an hour at each I/O."""
NOISE_BYTES: Final = 64 * _KIB
"""Most output of a login shell before the command begins; only its end is shown."""
TURN_BYTES: Final = 4 * _MIB
"""Most output of a sensor's loop in one turn; one with the interrupts of 512 cores has 1 MB."""

ANSWER_BYTES: Final = _MIB
"""One answer of a meter or a management controller; the largest of Redfish have 100 kB."""
ANSWER_S: Final = 10.0
"""One whole exchange with a device: connection, TLS, question, login and the last byte of the answer."""
LARGEST_NUMBER: Final = 1e30
"""No device or program counts beyond it; sums and units of more could leave what a float holds."""
QUANTITIES: Final = 2000
"""Readings of one look; a large server has some 500 sensors. Others are left out, with a doubt."""
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "W": (-1e7, 1e7),
    "degC": (-273.15, 2000.0),
    "rpm": (0.0, 1e6),
    "V": (-1e6, 1e6),
    "A": (-1e5, 1e5),
    "%": (-1e4, 1e4),
}
"""Range of a reading, by its unit: generous, since a scale may be wrong (oddities.py), and never what no instrument shows."""
MESSAGE_BYTES: Final = 64 * _KIB
"""A message of a meter at a broker; a longer one is left out, with a doubt."""
MESSAGES: Final = 64
"""Messages that wait for a look; only the newest is used."""

SWITCH_S: Final = 60.0
"""Until a switch says that it did as it was asked; a server's own controller takes some seconds."""
SWITCH_TRIES: Final = 3
"""Tries to switch power on again where its switch does not answer: a controller that restarts takes about a minute."""

REQUEST_HEAD_S: Final = 10.0
"""Until the head of a request is whole. A browser sends it at once."""
REQUEST_BODY_S: Final = 20.0
"""Until a form is whole: 64 kB over a slow line."""
FORM_BYTES: Final = 64 * _KIB
"""The body of a request; forms are small."""
CONNECTIONS: Final = 1200
"""Connections to `dutlab serve` at a time."""
CONNECTIONS_OF_ADDRESS: Final = 600
"""Most connections of one address: half of all, since a proxy that serves the pages to many is one."""
FAILED_LOGINS: Final = 5
FAILED_LOGINS_S: Final = 60.0
"""So many wrong tokens of one sender within so many seconds, and it is answered slowly until the first of them is older."""
SLOW_ANSWER_S: Final = 2.0
"""Wait of such a sender for each answer."""
SENDERS: Final = 10_000
"""Addresses whose wrong tokens are counted; of more, the oldest is forgotten."""
DESCRIPTORS_KEPT: Final = 64
"""File descriptors that `dutlab serve` keeps for files and databases: connections take the others."""

CONSOLE_BYTES: Final = 16 * _MIB
"""Bytes that are read of a guest's console, from its end: a trial prints some kilobytes, and a kernel that panics some more."""
BUILD_S: Final = 6 * 3600.0
"""A build of `dutlab bisect`; a kernel with all modules takes an hour or two on four cores."""
BUILD_BYTES: Final = 256 * _MIB
"""Most output of a build; a kernel's build that shows its commands prints 100 MB."""
BUILD_KEPT_BYTES: Final = 64 * _KIB
"""Bytes that are kept of it: its end, which says why it failed."""
GIT_S: Final = 600.0
"""One call of git: a work tree of Linux has 80,000 files."""
PIPE_S: Final = 30.0
"""Until a pipe that is named as an experiment or testbed was written and closed: a script that asks a host may write it."""

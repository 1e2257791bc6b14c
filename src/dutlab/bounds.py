"""Limits of data from outside dutlab: file sizes, output lengths, numbers and waits, with the reason for each.

Only `outside.py` reads files from outside, each within a FileBound. All other readers of outside data take their limits from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_KIB, _MIB = 1 << 10, 1 << 20


class FileBound(NamedTuple):
    """Size limit for one kind of file."""

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
"""Most samples of one trial: 230 series at one sample a second for a day. They are sorted in DATABASE_MEMORY and then streamed."""
DATABASE_MEMORY: Final = "2GB"
"""Memory limit of DuckDB for dutlab's queries and the user's; it writes no temporary files."""

SECRET_BYTES: Final = 64 * _KIB
"""Most bytes of a key, or of a certificate with its key."""
EVENT_LINE_BYTES: Final = _MIB
"""Most bytes of one event. Most have a few hundred; one with every reading of a host has some kilobytes. A longer line is skipped."""

QUESTION_BYTES: Final = 16 * _MIB
"""Most bytes of a host's answer to one question; facts of a host with 500 interfaces have 2 MB. The rest is counted, not kept."""
OUTPUT_BYTES: Final = 64 * _MIB
"""Most output bytes of a measuring program or a step; iperf3 prints less in an hour of 32 streams. The rest is counted, not kept."""
LINE_BYTES: Final = 64 * _MIB
"""Most bytes of one line: a generator's report with its histograms is a single line."""
FETCHED_BYTES: Final = 256 * _MIB
"""Most bytes of a file that is fetched whole from a host: fio's log of every I/O of an hour."""
NOISE_BYTES: Final = 64 * _KIB
"""Most output bytes of a login shell before the command begins; only the end of the output is shown."""
TURN_BYTES: Final = 4 * _MIB
"""Most output bytes of one pass of a sensor's loop; a pass with the interrupts of 512 cores has 1 MB."""

ANSWER_BYTES: Final = _MIB
"""Most bytes of an answer of a meter or a management controller; the largest Redfish answers have 100 kB."""
ANSWER_S: Final = 10.0
"""Time limit of a whole exchange with a device: connection, TLS, question, login and the last byte of the answer."""
LARGEST_NUMBER: Final = 1e30
"""Largest accepted number. No device or program counts beyond it, and sums or unit conversions of larger numbers could overflow a float."""
QUANTITIES: Final = 2000
"""Most readings taken from a device at once; a large server has some 500 sensors. Further ones are left out, with a doubt."""
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "W": (-1e7, 1e7),
    "degC": (-273.15, 2000.0),
    "rpm": (0.0, 1e6),
    "V": (-1e6, 1e6),
    "A": (-1e5, 1e5),
    "%": (-1e4, 1e4),
}
"""Unit → accepted range of a reading: wide, since a scale may be wrong (oddities.py), but without values that no instrument shows."""
MESSAGE_BYTES: Final = 64 * _KIB
"""Most bytes of a meter's message from a broker; a longer one is left out, with a doubt."""
MESSAGES: Final = 64
"""Most messages that wait to be read; only the newest is used."""

SWITCH_S: Final = 60.0
"""Time limit until a switch reports the requested state; a server's management controller takes some seconds."""
SWITCH_TRIES: Final = 3
"""Attempts to switch power on again while the switch does not answer: a controller that restarts takes about a minute."""

REQUEST_HEAD_S: Final = 10.0
"""Time limit for the whole head of a request. A browser sends it at once."""
REQUEST_BODY_S: Final = 20.0
"""Time limit for a whole form: 64 kB over a slow line."""
FORM_BYTES: Final = 64 * _KIB
"""Most bytes of a request's body; forms are small."""
CONNECTIONS: Final = 1200
"""Most simultaneous connections to `dutlab serve`."""
CONNECTIONS_OF_ADDRESS: Final = 600
"""Most connections from one address: half of all, since a proxy that serves many users is one address."""
FAILED_LOGINS: Final = 5
FAILED_LOGINS_S: Final = 60.0
"""Period in which a sender may send FAILED_LOGINS wrong tokens. It is then answered slowly until the first is older than this."""
SLOW_ANSWER_S: Final = 2.0
"""Delay of each answer to a sender with too many wrong tokens."""
SENDERS: Final = 10_000
"""Most addresses whose wrong tokens are counted; beyond it, the oldest address is forgotten."""
DESCRIPTORS_KEPT: Final = 64
"""File descriptors that `dutlab serve` reserves for files and databases; connections can use the rest."""

CONSOLE_BYTES: Final = 16 * _MIB
"""Bytes read from the end of a guest's console: a trial prints some kilobytes, and a kernel panic some more."""
BUILD_S: Final = 6 * 3600.0
"""Time limit of a build of `dutlab bisect`; a kernel with all modules takes an hour or two on four cores."""
BUILD_BYTES: Final = 256 * _MIB
"""Most output bytes of a build; a kernel build that shows its commands prints 100 MB."""
BUILD_KEPT_BYTES: Final = 64 * _KIB
"""Bytes kept from the end of a build's output, which has the reason of a failure."""
GIT_S: Final = 600.0
"""Time limit of one git command: a work tree of Linux has 80,000 files."""
PIPE_S: Final = 30.0
"""Time limit until a pipe named as an experiment or testbed is written and closed: its writer may be a script that asks a host."""
ARTIFACT: Final = FileBound("artifact", 4 << 30, "a hundred demos take 200 MB; larger raw data belongs in a separate archive")
ARTIFACT_FILES: Final = 200_000
"""Most files of an artifact: a hundred runs of 300 trials with six files each."""
ARTIFACT_INDEX_BYTES: Final = 64 * _MIB
"""Most bytes of the index of an artifact's files: 200,000 names of 300 bytes."""
WHEEL: Final = FileBound("wheel", 256 * _MIB, "dutlab's has 4 MB")
BUNDLE: Final = FileBound("sigstore bundle", _MIB, "one has 10 kB; certificates and proofs of several logs stay below")
SIGNATURE: Final = FileBound("signature", 64 * _KIB, "one by the largest RSA key has 2 kB")

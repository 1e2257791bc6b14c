"""A system: one record of the words in which hosts of its kind are asked, and of the meaning of their answers. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dutlab.errors import MeasurementError
from dutlab.systems.facts import OwnFacts
from dutlab.systems.modes import DeclaredMode
from dutlab.systems.watched import Counting, CpuWatch

_HINT = re.compile(r"(?:too long|frag(?:mentation)? needed|packet too big).*?mtu\s*[=:]?\s*(\d+)", re.DOTALL | re.IGNORECASE)
_IPV6 = 6

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Shell:
    """Way of a command to a host through the login shell that sshd starts, and way to end it there. The words are argvs or one line."""

    command_line: Callable[[Sequence[str], bytes], str]
    """The line for sshd that runs an argv with a mark around its output (hosts/ssh_command.py says what comes back)."""
    keeper: Callable[[str], Argv]
    """Reads from standard input which groups to watch and to end, and ends those left when its input ends; its last word is given."""
    sweep: Callable[[int, str, Sequence[int]], Argv]
    """Ends the groups of a connection that was lost, if its keeper, by number and last word, still runs."""
    put: Callable[[str, str, int, int], Argv]
    """Writes standard input to PATH, under which the file appears only once all of SIZE is there: PATH, a word for its name until then,
    mode, SIZE."""
    get: Callable[[str], Argv]
    """Prints a file."""
    lease: Callable[[str, str], Argv]
    """Holds the host's lease for whoever the first word names until its input ends (hosts/lease.py says what it prints). The second is
    `over` to take one over whose holder has ended."""
    text: Callable[[str], Argv]
    """Runs a text that a user wrote, in the language of the system's users."""
    gate: Callable[[str], Argv]
    """The command behind a gate, started at an instant that is named later (posix_gate.py)."""
    in_directory: Callable[[str, str], str]
    """The text, run in a folder; a host without the folder ends with 126 and says so."""
    absent: Callable[[Sequence[Argv]], Argv]
    """Prints the first name of each group of programs of which the host has none."""
    gate_here: Callable[[str], Argv] | None = None
    """The command behind a gate on the controller itself: started by a word, since its clock is the controller's."""
    watches_background: bool = True
    """True if programs that a command leaves in the background are seen, and ended with its group."""


@dataclass(frozen=True)
class PingWords:
    """A single ping that may not be fragmented: the command before size and address, by version of IP; a version without one has none."""

    system: str
    v4: Argv
    v6: Argv = ()
    answer: str = ""
    """A pattern of the line in which the far end answers, `{address}` in place of its address. Empty where the exit status is enough."""
    version: Argv = ()
    """Command that prints its version, if there is one."""

    def argv(self, version: int, payload: int, address: str) -> list[str]:
        """Raises MeasurementError where this system has no such ping."""
        words = self.v6 if version == _IPV6 else self.v4
        if not words:
            raise MeasurementError(
                f"ping of {self.system} cannot forbid that IPv{version} is fragmented",
                remedy="measure the path MTU from another system, or over IPv4",
            )
        return [*words, str(payload), address]

    def answered(self, status: int, text: str, address: str) -> bool:
        """Return whether `address`, the far end, answered."""
        if not self.answer:
            return status == 0
        return status == 0 and re.search(self.answer.format(address=re.escape(address)), text) is not None


def hint(text: str) -> int:
    """Return the MTU that the refusal of a ping names (RFC 1191 section 4), 0 where there is none."""
    match = _HINT.search(text)
    return int(match[1]) if match else 0


@dataclass(frozen=True)
class System:
    """System of a host, called by its `family` in a testbed."""

    name: str
    title: str
    shell: Shell
    ping: PingWords
    listens: Callable[[int], Argv]
    """Ends with 0 and prints a line for which `is_listening` holds if something listens on a TCP port."""
    is_listening: Callable[[str, int], bool]
    install: str
    """Command with which a person installs a program there; `{}` is the package."""
    kernel: str = ""
    """Output of `uname -s`."""
    modes: tuple[DeclaredMode, ...] = ()
    """Those that dut/NAME.py applies and verifies; without any, each mode is written out in the experiment."""
    ports: Argv = ()
    """Prints the names of all interfaces; empty where a testbed's names of ports are others."""
    spaced_ports: bool = False
    """Names of its adapters are its users' own and may have spaces: `Ethernet 2`."""
    pin: Argv = ()
    """Stands before a list of cores and a command that may run on these only; empty where no command does that."""
    as_root: tuple[Argv, ...] = ()
    """Prefixes that run a command as root without a password."""
    has_way_in: bool = True
    """True if a command can reach such a host."""
    kernel_tables: bool = False
    """True if routes, rules and states are those of its Linux kernel, and not managed by other software."""
    facts: tuple[Sequence[str], Callable[[str, Sequence[str]], dict[str, object]]] | None = None
    """Scripts in the language of `shell.text`, and what they print together as path of a fact → value, for so many interfaces (ValueError
    where it is not an answer). None where a POSIX shell is asked the questions of linux_facts."""
    own_facts: OwnFacts | None = None
    """Further questions in its own words."""
    counters: Counting | None = None
    """Reader of its counters before and after a trial; None where that is not known."""
    cores: CpuWatch | None = None
    """Watch of its cores; None where they cannot be watched."""
    runs_engine: bool = False
    """True if our engine runs there; elsewhere modes are verified by pings."""
    untried: bool = False
    """True if its words were tried against documented outputs only, and never on a machine."""

    def pinned(self, cores: Sequence[int]) -> list[str]:
        """Return the prefix of a command that runs on `cores`; empty without any. spec refuses cores where nothing pins."""
        return [*self.pin, ",".join(str(core) for core in cores)] if cores else []

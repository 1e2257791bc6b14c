"""System: one record of the commands for hosts of its kind, and of the meaning of their output. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dutlab.by_path import named
from dutlab.errors import MeasurementError

if TYPE_CHECKING:
    from dutlab.systems.facts import OwnFacts
    from dutlab.systems.modes import DeclaredMode
    from dutlab.systems.watched import Counting, CpuWatch

_HINT = r"(?:too long|frag(?:mentation)? needed|packet too big).*?mtu\s*[=:]?\s*(\d+)"
_IPV6 = 6

Argv = tuple[str, ...]


@dataclass(frozen=True)
class Shell:
    """Start and end of commands on a host through the login shell of sshd. Each word is an argv or one line."""

    command_line: Callable[[Sequence[str], bytes], str]
    """Function that returns the line for sshd: it runs an argv with a mark around its output (format: hosts/ssh_command.py)."""
    keeper: Callable[[str], Argv]
    """Command that reads from standard input which groups to watch and to end. It ends the remaining ones at the end of its input. Its last
    word is given."""
    sweep: Callable[[int, str, Sequence[int]], Argv]
    """Command that ends the groups of a lost connection, if its keeper, identified by PID and last word, still runs."""
    put: Callable[[str, str, int, int], Argv]
    """Command that writes standard input to PATH, where the file appears only once it has SIZE bytes. Arguments: PATH, a word for its
    temporary name, mode, SIZE."""
    get: Callable[[str], Argv]
    """Command that prints a file."""
    lease: Callable[[str, str], Argv]
    """Command that holds the host's lease until the end of its input (output: hosts/lease.py). Arguments: name of the holder, and `over` to
    replace a lease whose holder has ended."""
    text: Callable[[str], Argv]
    """Command that runs a user's text, in the language of the system's users."""
    gate: Callable[[str], Argv]
    """Command that runs a text behind a gate, which starts it at an instant named later (posix_gate.py)."""
    in_directory: Callable[[str, str], str]
    """Function that puts a change into a folder before a text; without the folder, the text ends with 126 and a message."""
    absent: Callable[[Sequence[Argv]], Argv]
    """Command that prints the first name of each group of programs if the host has none of the group."""
    gate_here: Callable[[str], Argv] | None = None
    """Command that runs a text behind a gate on the controller itself; a line starts it, because the clock is the same."""
    watches_background: bool = True
    """True if background processes of a command are watched, and ended with its group."""


@dataclass(frozen=True)
class PingWords:
    """Single ping that must not be fragmented: the command before size and address, per IP version; empty if the system has none."""

    system: str
    v4: Argv
    v6: Argv = ()
    answer: str = ""
    """Pattern of the line with the far end's answer, with `{address}` for its address; empty where the exit status is enough."""
    version: Argv = ()
    """Command that prints its version; empty if there is none."""

    def argv(self, version: int, payload: int, address: str) -> list[str]:
        """Return the command for a ping. Raises MeasurementError if the system has none for this IP version."""
        words = self.v6 if version == _IPV6 else self.v4
        if not words:
            raise MeasurementError(
                f"ping of {self.system} cannot forbid fragmentation of IPv{version}",
                remedy="measure the path MTU from another system, or over IPv4",
            )
        return [*words, str(payload), address]

    def answered(self, status: int, text: str, address: str) -> bool:
        """Return whether the far end, `address`, answered."""
        if not self.answer:
            return status == 0
        return status == 0 and re.search(self.answer.format(address=re.escape(address)), text) is not None


def hint(text: str) -> int:
    """Return the MTU in the error message of a ping (RFC 1191 section 4); 0 without one."""
    match = re.search(_HINT, text, re.DOTALL | re.IGNORECASE)
    return int(match[1]) if match else 0


@dataclass(frozen=True)
class System:
    """System of a host, selected by its `family` in a testbed."""

    name: str
    title: str
    shell: Shell
    ping: PingWords
    listens: Callable[[int], Argv]
    """Command that prints the listeners on a TCP port; `is_listening` parses its output."""
    is_listening: Callable[[str, int], bool]
    install: str
    """Command to install a program there, for the user; `{}` is the package."""
    kernel: str = ""
    """Output of `uname -s`."""
    modes: tuple[DeclaredMode, ...] = ()
    """Modes that dut/NAME.py applies and verifies; without any, the experiment defines each mode."""
    ports: Argv = ()
    """Command that prints the names of all interfaces; empty where a testbed uses other names of ports."""
    spaced_ports: bool = False
    """True if users name its adapters, so that names may have spaces: `Ethernet 2`."""
    pin: Argv = ()
    """Prefix, followed by a list of cores, of a command that runs only on these; empty if the system has none."""
    as_root: tuple[Argv, ...] = ()
    """Prefixes that run a command as root without a password."""
    has_way_in: bool = True
    """True if a command can reach such a host."""
    kernel_tables: bool = False
    """True if routes, rules and states are those of its Linux kernel, without other software that manages them."""
    facts: tuple[Sequence[str], Callable[[str, Sequence[str]], dict[str, object]]] | None = None
    """Scripts in the language of `shell.text`, and the parser of their joint output for a list of interfaces: path of a fact → value
    (ValueError for an invalid answer). None for systems with a POSIX shell, which answer the questions of linux_facts."""
    own_facts: OwnFacts | None = None
    """Further questions for this system."""
    counters_path: str = ""
    """Path of the reader of its counters before and after a trial; empty if they cannot be read."""
    cores_path: str = ""
    """Path of the watch of its cores; empty if they cannot be watched."""
    runs_engine: bool = False
    """True if the engine runs there; otherwise pings verify modes."""
    untried: bool = False
    """True if it was only tested against documented outputs, and never on a machine."""

    @property
    def counters(self) -> Counting | None:
        """Reader of its counters; None if they cannot be read."""
        counting: Counting | None = named(self.counters_path) if self.counters_path else None
        return counting

    @property
    def cores(self) -> CpuWatch | None:
        """Watch of its cores; None if they cannot be watched."""
        watch: CpuWatch | None = named(self.cores_path) if self.cores_path else None
        return watch

    def pinned(self, cores: Sequence[int]) -> list[str]:
        """Return the prefix of a command that runs on `cores`; empty without cores. spec refuses cores on systems without `pin`."""
        return [*self.pin, ",".join(str(core) for core in cores)] if cores else []

"""Stand-ins for the programs of a FreeBSD, an OpenBSD and a macOS behind sshd, on a Linux whose own programs, /proc and /sys the login does not see.

Each prints what its manual and source have for the options that dutlab gives; what it does not know is refused, as there.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROC = Path(__file__)
"""Set by main(): where this machine's /proc is."""
OWN = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
HIDDEN = ("ip", "ethtool", "taskset", "nft", "lscpu", "systemd-detect-virt", "tc", "bash")
"""What only a Linux has, or, as bash, only some of these systems."""
RELEASE = {"FreeBSD": "14.1-RELEASE", "OpenBSD": "7.6", "Darwin": "23.6.0"}
# sysctl(8) of each; kern.cp_times is FreeBSD's alone, kern.cp_time here OpenBSD's.
SYSCTLS = {
    "FreeBSD": {"hw.model": "Intel(R) Xeon(R) D-1518", "hw.ncpu": "2", "hw.physmem": "8467316736", "kern.timecounter.hardware": "TSC-low"},
    "OpenBSD": {"hw.model": "AMD GX-412TC SOC", "hw.ncpu": "2", "hw.physmem": "4259840000", "kern.timecounter.hardware": "tsc"},
    "Darwin": {"machdep.cpu.brand_string": "Apple M2", "hw.ncpu": "2", "hw.memsize": "17179869184", "hw.model": "Mac14,2"},
}
CLOCKRATE = "{ hz = 1000, tick = 1000, profhz = 8128, stathz = 100 }"
PATIENCE = {"FreeBSD": ("-W", "1000"), "OpenBSD": ("-w", "1"), "Darwin": ("-W", "1000")}
"""How ping(8) of each is told to wait for a second."""


def install(folder: Path, kernel: str) -> str:
    """The text of a login shell, beside which the programs of `kernel` lie from now on."""
    programs = folder / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {__file__} {kernel} {folder / "proc"} {name} "$@"\n')
        (programs / name).chmod(0o755)
    return f'#!/bin/sh\nPATH={programs}:$PATH; export PATH\nexec /bin/sh "$@"\n'


def hiding(folder: Path) -> str:
    """A shell script for the server's own mount namespace: no program of Linux's, no /proc but at a place of ours."""
    (folder / "proc").mkdir()
    files = {str(Path(found).resolve()) for name in HIDDEN if (found := shutil.which(name, path=OWN))}
    hidden = "\n".join(f"mount --bind /dev/null {shlex.quote(file)}" for file in sorted(files))
    return f"{hidden}\nmount --rbind /proc {shlex.quote(str(folder / 'proc'))}\nmount -t tmpfs none /proc\nmount -t tmpfs none /sys\n"


def uname(kernel: str, *options: str) -> int:
    return say({"-s": kernel, "-r": RELEASE[kernel], "-m": "amd64", "-v": f"{kernel} {RELEASE[kernel]}"}[options[0] if options else "-s"])


def ps(_: str, *options: str) -> int:
    """`ps -o pgid= -p N` and `ps -ww -o args= -p N`."""
    *_, field, _, pid = options
    try:
        if field == "pgid=":
            return say((PROC / pid / "stat").read_text().rpartition(")")[2].split()[2])
        return say((PROC / pid / "cmdline").read_text().replace("\0", " "))
    except OSError:
        return 1


def ping(kernel: str, *argv: str) -> int:
    assert argv[:-2] == ("-n", "-c", "1", *PATIENCE[kernel], "-D", "-s"), argv
    size, far = argv[-2:]
    words = [which("ping"), "-n", "-c", "1", "-W", "1", "-M", "do", "-s", size, far]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        if "too long" in done.stdout + done.stderr:
            print("ping: sendto: Message too long", file=sys.stderr)
        return say(f"PING {far} ({far}): {size} data bytes\n\n--- {far} ping statistics ---\n1 packets transmitted, 0 packets received", 2)
    return say(f"PING {far} ({far}): {size} data bytes\n{int(size) + 8} bytes from {far}: icmp_seq=0 ttl=63 time=0.2 ms")


def netstat(kernel: str, *options: str) -> int:
    if options == ("-an",):
        say("Active Internet connections (including servers)\nProto Recv-Q Send-Q  Local Address          Foreign Address        (state)")
        for name, family in (("tcp", "tcp4"), ("tcp6", "tcp6")):
            for line in (PROC / "self/net" / name).read_text().splitlines()[1:]:
                _, here, _, state, *_ = line.split()
                port = int(here.rpartition(":")[2], 16)
                say(f"{family}       0      0  *.{port:<21} *.*                    {'LISTEN' if state == '0A' else 'ESTABLISHED'}")
        return 0
    if kernel == "OpenBSD":
        return netstat_of_openbsd(*options)
    with_table = {"FreeBSD": ("-i", "-b", "-d", "-n", "-W"), "Darwin": ("-i", "-b", "-d", "-n")}[kernel]
    if options != with_table:
        return 1 if "-s" not in options else 0
    idrop = "Idrop " if kernel == "FreeBSD" else ""
    say(f"Name Mtu Network Address Ipkts Ierrs {idrop}Ibytes Opkts Oerrs Obytes Coll Drop")
    for name, of in links().items():
        rx, tx = of[:8], of[8:]
        dropped = f"{rx[3]} " if idrop else ""
        say(f"{name} 1500 <Link#2> 02:00:00:00:00:01 {rx[1]} {rx[2]} {dropped}{rx[0]} {tx[1]} {tx[2]} {tx[0]} 0 {tx[3]}")
    return 0


def netstat_of_openbsd(*options: str) -> int:
    """Bytes with -b, else packets with errors (-e) or with what queues dropped (-d), of if.c 1.81."""
    if "-s" in options:
        return 0
    asked = {("-i", "-b", "-n"): None, ("-i", "-n", "-e"): 2, ("-i", "-n", "-d"): 3}[options]
    say(f"Name Mtu Network Address {'Ibytes Obytes' if asked is None else 'Ipkts Ifail Opkts Ofail Colls'}")
    for name, of in links().items():
        rx, tx = of[:8], of[8:]
        told = f"{rx[0]} {tx[0]}" if asked is None else f"{rx[1]} {rx[asked]} {tx[1]} {tx[asked]} 0"
        say(f"{name} 1500 <Link> 02:00:00:00:00:01 {told}")
    return 0


def systat(kernel: str, *options: str) -> int:
    """`systat -a -B -s N cpu`: the shares of the cores over N seconds."""
    if kernel != "OpenBSD" or (options[:3], options[4:]) != (("-a", "-B", "-s"), ("cpu",)):
        return 127
    before = cores()
    time.sleep(float(options[3]))
    say("   1 users Load 0.10 0.10 0.10    box 12:34:56\n\nCPU           User        Nice      System        Spin   Interrupt        Idle")
    for n, (now, then) in enumerate(zip(cores(), before, strict=True)):
        user, nice, system, idle, interrupt = (a - b for a, b in zip(now, then, strict=True))
        ticks = max(1, user + nice + system + idle + interrupt)
        say(f"{n}   " + "   ".join(f"{100 * share / ticks:.1f}%" for share in (user, nice, system, 0, interrupt, idle)))
    return 0


def cores() -> list[list[int]]:
    """User, nice, system, idle and interrupt ticks of each."""
    rows = re.findall(r"^cpu\d+ (\d+) (\d+) (\d+) (\d+) \d+ (\d+)", (PROC / "stat").read_text(), re.MULTILINE)
    return [[int(word) for word in row] for row in rows]


def ifconfig(_: str, *options: str) -> int:
    if options == ("-l",):
        return say(" ".join(links()))
    if not options:
        return say("\n".join(f"{name}: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> mtu 1500" for name in links()))
    name = next((word for word in options if word in links()), options[-1])
    if name not in links():
        print(f"ifconfig: interface {name} does not exist", file=sys.stderr)
        return 1
    return say(f"{name}: flags=8863<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n\tether 02:00:00:00:00:01\n\tstatus: active")


def sysctl(kernel: str, *options: str) -> int:
    name = options[-1]
    if kernel == "FreeBSD" and name == "kern.cp_times":
        return say(" ".join(f"{user} {nice} {system} {interrupts} {idle}" for user, nice, system, idle, interrupts in cores()))
    if kernel == "OpenBSD" and name == "kern.cp_time":
        user, nice, system, idle, interrupts = (sum(ticks) // len(cores()) for ticks in zip(*cores(), strict=True))
        return say(f"{user},{nice},{system},0,{interrupts},{idle}")
    if name == "kern.clockrate":
        return say(CLOCKRATE)
    if name in SYSCTLS[kernel]:
        return say(SYSCTLS[kernel][name])
    print(f"sysctl: unknown oid '{name}'", file=sys.stderr)
    return 1


def links() -> dict[str, list[str]]:
    rows = (line.partition(":") for line in (PROC / "self/net/dev").read_text().splitlines()[2:])
    return {name.strip(): numbers.split() for name, _, numbers in rows}


def which(name: str) -> str:
    found = shutil.which(name, path=OWN)
    assert found is not None
    return found


def say(text: str, status: int = 0) -> int:
    print(text)
    return status


def sw_vers(kernel: str, *options: str) -> int:
    assert options == ("-productVersion",)
    return say("14.6.1") if kernel == "Darwin" else 127


PROGRAMS: dict[str, Callable[..., int]] = {
    "uname": uname, "ps": ps, "ping": ping, "netstat": netstat, "ifconfig": ifconfig, "sysctl": sysctl, "sw_vers": sw_vers,
    "systat": systat,
}  # fmt: skip


if __name__ == "__main__":
    kernel, proc, name, *arguments = sys.argv[1:]
    PROC = Path(proc)
    sys.exit(PROGRAMS[name](kernel, *arguments))

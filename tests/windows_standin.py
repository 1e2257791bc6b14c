"""A stand-in for a Windows behind sshd: what its shells do with our lines, by the meaning of the scripts, not by a PowerShell of its own.

It knows PowerShell's encoded commands (about_PowerShell_exe), how a program takes its command line apart (Microsoft's C runtime, "Parsing C++
command-line arguments"), and four programs: ping and netstat, which speak German, taskkill, and iperf3, which is this machine's. There is no
sh, no cat and no ip: whatever asks for them is told that they are not there, as on a Windows.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from dutlab.systems import windows, windows_facts  # started as PYTHON is, it knows no place of ours

PYTHON = (sys.executable, "-I", "-S")
"""Without what a start of Python otherwise looks for: some are made for each command."""

LONGEST_OF_CMD = 8191
OWN = ("ping", "netstat.exe", "taskkill.exe", "powershell.exe")
SAYS = {
    "cmd": "Der Befehl ist entweder falsch geschrieben oder konnte nicht gefunden werden.",
    "powershell": "Die Benennung wurde nicht als Name eines Cmdlet, einer Funktion, einer Skriptdatei oder eines Programms erkannt.",
}


def program(name: str) -> list[str] | None:
    """Get-Command -CommandType Application."""
    if name in OWN:
        return [*PYTHON, __file__, name]
    found = shutil.which("iperf3") if name in ("iperf3", "iperf3.exe") else None
    return None if found is None else [found]


def words_of(line: str) -> list[str]:
    """As the C runtime has it: 2n backslashes and a quote are n and the end of a quoted part, 2n+1 are n and a quote."""
    words: list[str] = []
    word, quoted, began, at = "", False, False, 0
    while at < len(line):
        slashes = re.match(r"\\*", line[at:])[0]
        at += len(slashes)
        after = line[at : at + 1]
        if after == '"':
            word += "\\" * (len(slashes) // 2)
            if len(slashes) % 2:
                word += '"'
            else:
                quoted = not quoted
            began, at = True, at + 1
        elif slashes:
            word, began = word + slashes, True
        elif after in " \t" and not quoted:
            words += [word] if began else []
            word, began, at = "", False, at + 1
        else:
            word, began, at = word + after, True, at + 1
    return [*words, word] if began else words


def run(mark: str, name: str, line: str) -> int:
    mark = f"\x1e{mark}"
    argv = program(name)
    if argv is None:
        say(f"{mark}-\n")
        say(f"{mark}\n{mark}127\n", 2)
        return 127
    say(f"{mark}{os.getpid()}\n")
    say(f"{mark}\n", 2)
    status = subprocess.run([*argv, *words_of(line)], check=False).returncode
    status = status if 0 <= status <= 255 else 255
    say(f"{mark}{status}\n", 2)
    return status


def keeper(_: str) -> int:
    watched: set[str] = set()
    while line := sys.stdin.readline():
        sign, group = line.split()
        if sign == "+":
            watched.add(group)
        elif sign == "-":
            watched.discard(group)
        else:
            taskkill("/T", "/F", "/PID", group)
    for group in watched:
        taskkill("/T", "/F", "/PID", group)
    return 0


def sweep(keeper: str, word: str, *groups: str) -> int:
    try:
        line = Path(f"/proc/{keeper}/cmdline").read_text()
    except OSError:
        return 0
    encoded = line.replace("\0", " ").split()[-1]
    if word in decoded(encoded):
        for group in (*groups, keeper):
            taskkill("/T", "/F", "/PID", group)
    return 0


def put(path: str, word: str, size: str) -> int:
    part = Path(f"{path}.{word}.part")
    try:
        part.write_bytes(sys.stdin.buffer.read())
        assert part.stat().st_size == int(size)
        part.replace(path)
    except (OSError, AssertionError) as e:
        say(f"put: {e}\r\n", 2)
        part.unlink(missing_ok=True)
        return 1
    return 0


def get(path: str) -> int:
    try:
        sys.stdout.buffer.write(Path(path).read_bytes())
    except OSError as e:
        say(f"{e}\r\n", 2)
        return 1
    return 0


def lease(who: str) -> int:
    path = Path(os.environ["DUTLAB_TEST_PROGRAMDATA"]) / "dutlab-lease"
    with path.open("a+") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"held\r\n{path.read_text()}\r\n")
            return 0
        held.truncate(0)
        held.write(who)
        held.flush()
        say("ours\r\n\r\n")
        sys.stdin.read()
        held.truncate(0)
    return 0


def absent(*groups: str) -> int:
    for names in map(str.split, groups):
        if not any(map(program, names)):
            say(f"{names[0]}\r\n")
    return 0


def gate(text: str) -> int:
    say("\n")
    while line := sys.stdin.readline():
        word, *rest = line.split()
        now = time.time_ns() // 15_625_000 * 15_625_000
        if word == "clock":
            say(f"{now} 15625000\n")
            continue
        left = int(rest[0]) - now
        say(f"{left}\n")
        time.sleep(max(0.0, left / 1e9))
        say("\0began\n")
        return user(text)
    return 0


def user(text: str) -> int:
    """What a step's author wrote: programs with their arguments, a line each; the status is that of the last."""
    status = 0
    for line in filter(str.strip, text.splitlines()):
        name, *rest = line.split()
        argv = program(name)
        if argv is None:
            say(f"{name} : {SAYS['powershell']}\r\n", 2)
            return 1
        status = subprocess.run([*argv, *rest], check=False).returncode
    return status


def ping(*argv: str) -> int:
    assert argv[:5] == ("-n", "1", "-w", "1000", "-f")
    assert argv[5] == "-l"
    size, far = argv[6:]
    done = subprocess.run(["ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", size, far], capture_output=True, text=True, check=False)
    say(f"\r\nPing wird ausgeführt für {far} mit {size} Bytes Daten:\r\n")
    if done.returncode == 0:
        ttl = re.search(r"ttl=(\d+)", done.stdout)[1]
        say(f"Antwort von {far}: Bytes={size} Zeit<1ms TTL={ttl}\r\n")
        return 0
    if router := re.search(r"From (\S+) icmp_seq=1 Frag needed", done.stdout):
        say(f"Antwort von {router[1]}: Paket müsste fragmentiert werden, DF-Flag ist jedoch gesetzt.\r\n")
        return 0
    too_long = "message too long" in done.stderr + done.stdout
    say("Paket müsste fragmentiert werden, DF-Flag ist jedoch gesetzt.\r\n" if too_long else "Zeitüberschreitung der Anforderung.\r\n")
    return 1


def netstat(option: str) -> int:
    assert option == "-an"
    say("\r\nAktive Verbindungen\r\n\r\n  Proto  Lokale Adresse         Remoteadresse          Status\r\n")
    for file, to_address in (("tcp", _ipv4), ("tcp6", lambda _: "[::]")):
        for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]:
            _, here, there, state, *_ = line.split()
            (at, port), (peer, peer_port) = (text.split(":") for text in (here, there))
            word = "ABHÖREN" if state == "0A" else "HERGESTELLT"
            say(f"  TCP    {to_address(at)}:{int(port, 16)}   {to_address(peer)}:{int(peer_port, 16)}   {word}\r\n")
    return 0


def taskkill(*argv: str) -> int:
    assert argv[:3] == ("/T", "/F", "/PID")
    for pid in (*reversed(list(_below(int(argv[3])))), int(argv[3])):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return 0


def _below(pid: int) -> Iterator[int]:
    try:
        children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield child
        yield from _below(child)


def _ipv4(text: str) -> str:
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(text)))


def say(text: str, to: int = 1) -> None:
    os.write(to, text.encode("cp850", "replace") if not text.startswith("\x1e") else text.encode())


def decoded(encoded: str) -> str:
    return base64.b64decode(encoded).decode("utf-16-le")


SCRIPTS: dict[str, Callable[..., int]] = {
    windows._RUN: run, windows.KEEPER: keeper, windows.SWEEP: sweep, windows.PUT: put, windows.GET: get, windows.LEASE: lease,
    windows.ABSENT: absent,
}  # fmt: skip


def powershell(*argv: str) -> int:
    assert argv[:-1] == windows._POWERSHELL[1:]
    given, script = re.fullmatch(r"\$a=@\(((?:'(?:[^']|'')*',?)*)\);(.*)", decoded(argv[-1]), re.DOTALL).groups()
    words = [word.replace("''", "'") for word in re.findall(r"'((?:[^']|'')*)'", given)]
    if script in SCRIPTS:
        return SCRIPTS[script](*words)
    if script.startswith(windows.GATE):
        return gate(script.removeprefix(windows.GATE).removesuffix(windows._STATUS + " exit\n}\n").strip())
    if script == windows.COUNTERS + windows._STATUS:
        return counters()
    if script in {part + windows._STATUS for part in windows_facts.SCRIPTS}:
        return facts() if script.startswith(windows_facts.SCRIPTS[0]) else settings()
    return user(script.removesuffix(windows._STATUS))


def settings() -> int:
    """The same of what Get-NetFirewallProfile and the like give; a machine without memory modules to list."""
    said = {"today": "2026-11-27", "firewall": [{"Name": "Public", "Enabled": 0}], "drivers": [], "properties": [], "rss": [], "memory": []}
    say(json.dumps(said) + "\r\n")
    return 0


def facts() -> int:
    """ConvertTo-Json -Compress of what Get-CimInstance and Get-NetAdapter give; a German powercfg."""
    names = [line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    adapter = {"InterfaceDescription": "Intel(R) Ethernet Converged Network Adapter X710", "MacAddress": "3C-FD-FE-00-00-01", "Speed": 10**10,
               "MtuSize": 1500, "FullDuplex": True, "DriverVersionString": "1.16.202.10", "DriverFileName": "i40ea68.sys"}  # fmt: skip
    said = {
        "os": [{"Caption": "Microsoft Windows 11 Pro", "Version": "10.0.22631", "TotalVisibleMemorySize": 16668256}],
        "cpu": [{"Name": "Intel(R) Xeon(R) W-1290", "NumberOfCores": 10, "NumberOfLogicalProcessors": 20, "CurrentClockSpeed": 3192}],
        "machine": [{"Manufacturer": "FUJITSU", "Model": "CELSIUS W5010"}], "bios": [{"SMBIOSBIOSVersion": "V5.0.0.17"}],
        "adapters": [{"Name": name, **adapter} for name in names],
        "scheme": "GUID des Energieschemas: 381b4222-f694-41f0-9685-ff5bb260df2e  (Ausbalanciert)",
    }  # fmt: skip
    say(json.dumps(said) + "\r\n")
    return 0


def counters() -> int:
    """Get-NetAdapterStatistics, as CSV."""
    say('"Name","ReceivedBytes","ReceivedUnicastPackets","SentBytes","SentUnicastPackets"\r\n')
    for line in Path("/proc/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        of = numbers.split()
        say(f'"{name.strip()}","{of[0]}","{of[1]}","{of[8]}","{of[9]}"\r\n')
    return 0


def login_shell(name: str, line: str) -> int | None:
    """`cmd.exe /c LINE`, or `powershell.exe -c LINE`; both take this line for a program with its arguments."""
    first, *rest = line.split(" ")
    if first != "powershell.exe" or (name == "cmd" and len(line) > LONGEST_OF_CMD):
        say(f"{first}: {SAYS[name]}\r\n", 2)
        return 1
    return os.execv(sys.executable, [*PYTHON, __file__, first, *rest])


if __name__ == "__main__":
    own, *arguments = sys.argv[1:]
    if own in SAYS:
        sys.exit(login_shell(own, arguments[arguments.index("-c") + 1]))
    of_name = {"ping": ping, "netstat.exe": netstat, "taskkill.exe": taskkill, "powershell.exe": powershell}
    sys.exit(of_name[own](*arguments))

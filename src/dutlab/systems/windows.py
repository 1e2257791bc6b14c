"""Windows with an OpenSSH server. The default shell may be cmd or PowerShell.

sshd passes the command line to the default shell (cmd.exe /c, or DefaultShell in the registry). The line starts Windows PowerShell with a
script in Base64 (`-EncodedCommand`, about_PowerShell_exe), because both shells pass that unchanged. cmd accepts at most 8,191 characters.
The script starts the program with .NET's Process, which inherits the script's streams. It prints the marks of hosts/ssh_command.py with its
own process number and the program's status. taskkill(1) ends the script and all its descendants by this number. Windows has no signal that
asks a console program to end, so SIGTERM has the effect of SIGKILL. Background processes keep running after their parent has ended.

The parsers do not depend on the system's language. An answer of ping is recognised by the sender's address and TTL (German: `Antwort von
172.16.10.2: Bytes=1472 Zeit<1ms TTL=63`), a listener of netstat by the foreign address 0.0.0.0:0 (German state: `ABHÖREN`).

Written from Microsoft's documentation of ping, netstat, taskkill, PowerShell 5.1 and .NET, and from issues of Win32-OpenSSH. It was never
run on a Windows machine.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from subprocess import list2cmdline

from dutlab.errors import InputError
from dutlab.outside import csv_of
from dutlab.systems import windows_facts
from dutlab.systems.system import Argv, PingWords, Shell, System
from dutlab.systems.watched import Counting

_POWERSHELL = ("powershell.exe", "-NoProfile", "-NonInteractive", "-InputFormat", "None", "-EncodedCommand")
_RUN = r"""
$ProgressPreference='SilentlyContinue'
$o=[Console]::Out; $e=[Console]::Error; $m=[char]30+$a[0]
$c=@(Get-Command -CommandType Application -Name $a[1] -ErrorAction SilentlyContinue)[0]
if(!$c){ $o.Write("$m-`n"); $e.Write("$m`n${m}127`n"); exit 127 }
$o.Write("$m$PID`n"); $o.Flush(); $e.Write("$m`n"); $e.Flush()
$i=New-Object Diagnostics.ProcessStartInfo -ArgumentList $c.Path,$a[2]; $i.UseShellExecute=$false
$p=[Diagnostics.Process]::Start($i); $p.WaitForExit()
$s=$p.ExitCode; if($s -lt 0 -or $s -gt 255){ $s=255 }
$e.Write("$m$s`n"); exit $s
"""
KEEPER = r"""
$w=@{}
while($null -ne ($l=[Console]::In.ReadLine())){
 $s,$g=$l.Split(' ')
 if($s -eq '+'){ $w[$g]=1 } elseif($s -eq '-'){ $w.Remove($g) } else { taskkill.exe /T /F /PID $g 2>&1 >$null }
}
foreach($g in @($w.Keys)){ taskkill.exe /T /F /PID $g 2>&1 >$null }
"""
SWEEP = r"""
$k=Get-CimInstance Win32_Process -Filter "ProcessId=$($a[0])"
if($k -and $k.CommandLine.Contains($a[1])){ foreach($g in $a[2..99]){ taskkill.exe /T /F /PID $g }; taskkill.exe /T /F /PID $a[0] }
"""
PUT = r"""
$part="$($a[0]).$($a[1]).part"
try {
 $f=[IO.File]::Create($part); [Console]::OpenStandardInput().CopyTo($f); $f.Close()
 if((Get-Item -LiteralPath $part).Length -ne $a[2]){ throw 'not all of it arrived' }
 [IO.File]::Delete($a[0]); [IO.File]::Move($part,$a[0])
} catch { [Console]::Error.WriteLine("put: $($_.Exception.GetBaseException().Message)"); [IO.File]::Delete($part); exit 1 }
"""
GET = r"""
try { $b=[IO.File]::ReadAllBytes($a[0]); [Console]::OpenStandardOutput().Write($b,0,$b.Length) }
catch { [Console]::Error.WriteLine($_.Exception.GetBaseException().Message); exit 1 }
"""
# Windows releases the file lock when the process ends, even after a crash, so no stale lease is possible.
LEASE = r"""
$p=Join-Path $env:ProgramData 'dutlab-lease'
try { $f=[IO.File]::Open($p,'OpenOrCreate','ReadWrite','Read') } catch [IO.IOException] {
 $r=New-Object IO.StreamReader([IO.File]::Open($p,'Open','Read','ReadWrite')); 'held'; $r.ReadLine(); exit
}
$b=[Text.Encoding]::UTF8.GetBytes($a[0]); $f.SetLength(0); $f.Write($b,0,$b.Length); $f.Flush()
'ours'; ''
[void][Console]::In.ReadToEnd(); $f.SetLength(0); $f.Close()
"""
# UtcNow has the resolution of the system timer: 15.625 ms, unless a program asked for a finer one.
GATE = r"""
function now { ([DateTime]::UtcNow.Ticks-621355968000000000)*100 }
[Console]::Out.Write("`n")
while($null -ne ($l=[Console]::In.ReadLine())){
 $w,$at,$later=$l.Split(' '); $t=now
 if($w -eq 'clock'){ [Console]::Out.Write("$t 15625000`n"); continue }
 $left=[long]$at-$t; [Console]::Out.Write("$left`n")
 if($left -gt 0 -and $left -lt 60000000000){ Start-Sleep -Milliseconds ([int]($left/1000000)) }
 [Console]::Out.Write([char]0+"began`n"); [Console]::Out.Flush()
"""
ABSENT = (
    "foreach($g in $a){ $n=$g.Split(' '); if(!(Get-Command -CommandType Application -Name $n -ErrorAction SilentlyContinue)){ $n[0] } }\n"
)
# MSFT_NetAdapterStatisticsSettingData; ConvertTo-Csv separates by commas in every culture.
COUNTERS = r"""
Get-NetAdapterStatistics | Select-Object Name,Received*,Sent*,Outbound* | ConvertTo-Csv -NoTypeInformation
"""
_COUNTED = {
    "ReceivedBytes": "rx_bytes", "ReceivedDiscardedPackets": "rx_dropped", "ReceivedPacketErrors": "rx_errors",
    "ReceivedUnicastPackets": "rx_packets", "ReceivedMulticastPackets": "rx_packets", "ReceivedBroadcastPackets": "rx_packets",
    "SentBytes": "tx_bytes", "OutboundDiscardedPackets": "tx_dropped", "OutboundPacketErrors": "tx_errors",
    "SentUnicastPackets": "tx_packets", "SentMulticastPackets": "tx_packets", "SentBroadcastPackets": "tx_packets",
}  # fmt: skip
_STATUS = "\nif($null -ne $LASTEXITCODE){ exit $LASTEXITCODE }\n"
_LONGEST_LINE = 8191
# TCP, our address and port, the foreign address of a socket without a peer, and the state in the system's language.
_LISTENER = re.compile(r"^\s*TCP\s+\S+:(\d+)\s+(?:0\.0\.0\.0|\[::\]):0\s+\S+\s*$", re.MULTILINE)


def powershell(script: str, *words: str) -> Argv:
    """Return the command that runs `script` with `words` as `$a`."""
    arguments = ",".join("'" + word.replace("'", "''") + "'" for word in words)
    return (*_POWERSHELL, base64.b64encode(f"$a=@({arguments});{script}".encode("utf-16-le")).decode())


def _command_line(argv: Sequence[str], mark: bytes) -> str:
    line = " ".join(powershell(_RUN, mark.decode().removeprefix("\x1e"), argv[0], list2cmdline(argv[1:])))
    if len(line) > _LONGEST_LINE:
        what = f"`{argv[0]}` with its arguments takes {len(line)} characters; cmd.exe takes {_LONGEST_LINE}"
        raise InputError(what, remedy="put the text into a script on the host, and run that")
    return line


def _in_directory(folder: str, text: str) -> str:
    quoted = folder.replace("'", "''")
    return f"try {{ Set-Location -LiteralPath '{quoted}' -ErrorAction Stop }} catch {{ [Console]::Error.WriteLine($_); exit 126 }}\n{text}"


def parse_counters(text: str) -> dict[str, float]:
    """Parse the output of COUNTERS. Counters with the same meaning as on Linux get the Linux names."""
    counters: dict[str, float] = {}
    try:
        head, *rows = csv_of(text.strip()) or [[]]
    except ValueError:  # for example, the output is empty
        return counters
    for row in rows:
        of = dict(zip(head, row, strict=False))
        for column, value in of.items():
            if (name := _COUNTED.get(column)) and value.isdigit() and "Name" in of:
                key = f"{of['Name']}_{name}"
                counters[key] = counters.get(key, 0.0) + float(value)
    return counters


def _is_listening(text: str, port: int) -> bool:
    return str(port) in _LISTENER.findall(text)


WINDOWS_COUNTERS = Counting(COUNTERS, parse_counters)
WINDOWS = System(
    untried=True,
    spaced_ports=True,
    name="windows",
    title="Windows",
    shell=Shell(
        command_line=_command_line,
        keeper=lambda word: powershell(KEEPER, word),
        sweep=lambda keeper, word, groups: powershell(SWEEP, str(keeper), word, *map(str, groups)),
        put=lambda path, word, mode, size: powershell(PUT, path, word, str(size)),  # noqa: ARG005 -- Windows has no modes of files
        get=lambda path: powershell(GET, path),
        lease=lambda who, over: powershell(LEASE, who),  # noqa: ARG005 -- none is ever left to be taken over
        text=lambda text: powershell(text + _STATUS),
        gate=lambda text: powershell(f"{GATE} {text}{_STATUS} exit\n}}\n"),
        in_directory=_in_directory,
        absent=lambda groups: powershell(ABSENT, *(" ".join(names) for names in groups)),
        watches_background=False,
    ),
    ping=PingWords("Windows", ("ping", "-n", "1", "-w", "1000", "-f", "-l"), answer=r"\b{address}: .*\bTTL=\d+\b"),
    listens=lambda _: ("netstat.exe", "-an"),
    is_listening=_is_listening,
    install="put the folder of {} on the system's PATH",
    counters_path="dutlab.systems.windows:WINDOWS_COUNTERS",
    facts=(windows_facts.SCRIPTS, windows_facts.parse),
)

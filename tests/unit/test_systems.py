"""The records of systems: what a new one takes, and the words of Windows, which nobody else's look like."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dutlab.dut import family
from dutlab.errors import InputError, SpecRefused
from dutlab.hosts.reach import hosts_of
from dutlab.spec.known import BLACK_BOX, EXACT, LINUX, MANUAL, MDRAID
from dutlab.spec.loader import load_testbed
from dutlab.systems import SYSTEMS, system_of, windows
from dutlab.systems.windows import WINDOWS, powershell
from outputs import output
from windows_standin import decoded, words_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "testbeds" / "e302-9d.yaml"
# The list's registry line and the two files of a family, made in memory by a process of its own, before anything has read the list.
REGISTER = """
import sys, types
from pathlib import Path
from dataclasses import replace
from dutlab import systems
from dutlab.systems.modes import ROUTER
from dutlab.systems.linux import LINUX
record = sys.modules["dutlab.systems.toyos"] = types.ModuleType("dutlab.systems.toyos")
record.TOYOS = replace(LINUX, name="toyos", title="ToyOS", kernel="Toy", modes=(ROUTER,), as_root=(("become",),))
systems._PATHS["toyos"] = "dutlab.systems.toyos:TOYOS"
from dutlab.dut.black_box import AsFound
from dutlab.dut.mode import Family
toyos = sys.modules["dutlab.dut.toyos"] = types.ModuleType("dutlab.dut.toyos")
toyos.FAMILY = Family("toyos", {"router": AsFound(ROUTER)})
from dutlab.dut import family
from dutlab.hosts.reach import hosts_of
from dutlab.spec.loader import load_experiment, load_testbed
bed = load_testbed(Path(sys.argv[1]))
plan = load_experiment(Path(sys.argv[2]))
assert list(family(bed.hosts["dut"].family).modes_among({})) == list(plan.factors["mode"]) == ["router"]
assert hosts_of(bed)["dut"].system.as_root == (("become",),)
"""


def test_a_new_family_is_known_to_testbeds_experiments_modes_and_hosts_by_its_own_files_and_one_line(tmp_path: Path) -> None:
    bed = tmp_path / "bed.yaml"
    bed.write_text(EXAMPLE.read_text().replace("family: pfsense", "family: toyos"))
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text(f"experiment: toy\ntestbed: {bed}\nfactors: {{mode: [router]}}\nworkloads: [{{iperf3: {{duration: 1s}}}}]\n")
    done = subprocess.run([sys.executable, "-c", REGISTER, str(bed), str(experiment)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "toyos" not in SYSTEMS


@pytest.mark.parametrize(
    "way", ["{local: true, netns: box, family: vpp}", "{local: true, family: vpp}", "{ssh: root@192.0.2.1, family: vpp}"]
)
def test_a_host_has_the_system_of_its_family_however_it_is_reached(tmp_path: Path, way: str) -> None:
    bed = tmp_path / "bed.yaml"
    bed.write_text(EXAMPLE.with_name("vpp.yaml").read_text().replace("{ssh: root@192.0.2.1, family: vpp}", way))
    assert hosts_of(load_testbed(bed))["dut"].system is system_of("vpp")


def test_the_registry_has_each_system_under_the_name_in_its_record() -> None:
    assert {name: system.name for name, system in SYSTEMS.items()} == {name: name for name in SYSTEMS}
    assert {BLACK_BOX, MANUAL, LINUX, MDRAID, EXACT} <= {*SYSTEMS}


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_system_has_the_modes_that_its_record_names(name: str) -> None:
    assert [*family(name).modes_among({})] == [mode.name for mode in system_of(name).modes]


def test_cores_are_refused_where_nothing_keeps_a_program_on_them(tmp_path: Path) -> None:
    bed = tmp_path / "bed.yaml"
    text = EXAMPLE.read_text()
    source = next(line for line in text.splitlines() if line.strip().startswith("source:"))
    bed.write_text(text.replace(source, "  source: {ssh: root@192.0.2.11, family: windows, cpus: [1]}"))
    with pytest.raises(SpecRefused, match="leave cpus out"):
        load_testbed(bed)


@settings(max_examples=30)
@example([");"])
@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0\r\n"), max_size=12), max_size=5))
def test_a_windows_program_gets_the_words_that_it_was_given(words: list[str]) -> None:
    (line,) = (decoded(WINDOWS.shell.command_line(["iperf3", *words], b"\x1emark:").split()[-1]),)
    given_words = re.match(r"\$a=@\('mark:','iperf3','((?:[^']|'')*)'\);", line)
    assert given_words is not None and words_of(given_words[1].replace("''", "'")) == words


def test_a_line_for_windows_holds_nothing_that_cmd_or_powershell_reads_in_its_own_way_and_is_not_too_long() -> None:
    line = WINDOWS.shell.command_line(["iperf3", "%PATH%", "$HOME", "a & b", '"', "'"], b"\x1emark:")
    assert all(
        word.replace("-", "").replace("+", "").replace("/", "").replace("=", "").replace(".", "").isalnum() for word in line.split(" ")
    )
    # A command that is too long for cmd is refused and not cut.
    with pytest.raises(InputError, match="8191"):
        WINDOWS.shell.command_line(["iperf3", "x" * 4000], b"\x1emark:")
    for argv in (WINDOWS.shell.keeper("dutlab-keeper-0123456789ab"), WINDOWS.shell.lease("x" * 200, ""), WINDOWS.shell.gate("iperf3 -c x")):
        assert len(WINDOWS.shell.command_line(argv, b"\x1e0123456789abcdef:")) <= 8191
    # Quotes in a word stay inside it.
    assert decoded(powershell("$a[0]", "it's; exit")[-1]) == "$a=@('it''s; exit');$a[0]"


# The form of netstat's own documentation (Microsoft Learn, netstat), and the same with the words of a German Windows
NETSTAT = output("systems", "windows-netstat")


@pytest.mark.parametrize("text", [NETSTAT, NETSTAT.replace("ABHÖREN", "LISTENING").replace("HERGESTELLT", "ESTABLISHED")])
def test_a_listener_of_windows_is_known_in_every_language(text: str) -> None:
    assert [port for port in range(5200, 5206) if WINDOWS.is_listening(text, port)] == [5201, 5203]


# The properties of MSFT_NetAdapterStatisticsSettingData (Microsoft Learn), as ConvertTo-Csv writes them (about quotes: its page)
ADAPTERS = """\
"Name","ReceivedBytes","ReceivedUnicastPackets","ReceivedMulticastPackets","ReceivedDiscardedPackets","SentBytes","OutboundPacketErrors"
"Ethernet 2","1500","7","3","2","900","1"
"WLAN","","","","","",""
"""


def test_counters_of_windows_have_the_names_of_linux() -> None:
    found = windows.parse_counters(ADAPTERS.replace("\n", "\r\n"))
    assert found == {
        "Ethernet 2_rx_bytes": 1500, "Ethernet 2_rx_packets": 10, "Ethernet 2_rx_dropped": 2, "Ethernet 2_tx_bytes": 900,
        "Ethernet 2_tx_errors": 1,
    }  # fmt: skip
    assert windows.parse_counters("") == {}
    assert windows.parse_counters("x" * 200_000) == windows.parse_counters("a\n1\n") == {}

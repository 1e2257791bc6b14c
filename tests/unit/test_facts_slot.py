"""Where a card sits: registers as literal bytes, and whole trees of /sys and /proc as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost
from dutlab.systems.pcie import pcie_path
from sysfs import PciDevice, pcie_registers, write_card

# Built from PCI Express Base Specification 7.5.3: a list that begins at A0h and holds only the PCI Express capability (10h). Its device
# capabilities end in 010b: 512 bytes. Its device control is 2830h: bits 7:5 are 001b, 256 bytes; bits 14:12 are 010b, 512 bytes.
REGISTERS = (bytes(0x34) + b"\xa0" + bytes(0xA0 - 0x35) + bytes.fromhex("10000200 c28c0010 30280900 82740400 00008210")).hex()


def block(config: str) -> str:
    return f"device 0000:03:00.0\ncurrent_link_speed 5.0 GT/s PCIe\ncurrent_link_width 8\nmax_link_speed 5.0 GT/s PCIe\nmax_link_width 8\nconfig {config}\n"


def test_the_registers_say_payload_read_request_and_power_saving_to_root() -> None:
    (step,) = pcie_path(block(REGISTERS))
    assert (step.payload_bytes_most, step.payload_bytes, step.read_request_bytes, step.aspm) == (512, 256, 512, "off")
    assert (step.link_gts, step.link_width, step.link_gts_most, step.link_width_most) == (5.0, 8, 5.0, 8)
    # An ordinary user reads 64 bytes and learns the link only.
    (step,) = pcie_path(block(REGISTERS[:128]))
    assert step.link_gts == 5.0
    assert (step.payload_bytes, step.aspm) == (None, None)
    # What is no link is not known.
    (step,) = pcie_path("device 0000:00:03.0\ncurrent_link_speed Unknown\ncurrent_link_width 0\nmax_link_width 255\nconfig \n")
    assert step.link_gts is step.link_width is step.link_width_most is None


@settings(max_examples=40)
@given(st.binary(max_size=256))
def test_any_registers_are_read_without_an_error(registers: bytes) -> None:
    (step,) = pcie_path(block(registers.hex()))
    assert step.payload_bytes is None or step.payload_bytes in [128 << n for n in range(8)]


async def test_the_whole_way_to_the_root_is_read_and_the_card_stands_first(tmp_path: Path) -> None:
    port = PciDevice("0000:00:1c.4", width=4, registers=pcie_registers(payload=128, payload_most=256))
    card = PciDevice(
        "0000:03:00.0",
        width=4,
        registers=pcie_registers(payload=128, payload_most=512, aspm=2),
        irqs={40: ("0-3", "2", "eth9-TxRx-0"), 41: ("3", "3", "eth9-TxRx-1")},
    )
    write_card(tmp_path, "eth9", [port, card])
    found = (await collect_facts(LocalHost("dut"), ["eth9"], root=str(tmp_path)))["interfaces"]["eth9"]
    assert [(s["address"], s["link_width"], s["link_width_most"]) for s in found["pcie"]] == [
        ("0000:03:00.0", 4, 8),
        ("0000:00:1c.4", 4, 8),
    ]
    assert [(s["payload_bytes"], s["payload_bytes_most"], s["aspm"]) for s in found["pcie"]] == [(128, 512, "L1"), (128, 256, "off")]
    assert found["irqs"] == {
        "40": {"cores_allowed": "0-3", "cores_now": "2", "name": "eth9-TxRx-0"},
        "41": {"cores_allowed": "3", "cores_now": "3", "name": "eth9-TxRx-1"},
    }


async def test_what_a_machine_has_not_is_absent_with_its_reason(tmp_path: Path) -> None:
    facts = await collect_facts(LocalHost("dut"), ["no-such"], root=str(tmp_path))
    assert facts["interfaces"]["no-such"]["pcie"] is None
    assert facts["absent"]["interfaces/no-such/pcie"] == "no device"
    assert facts["absent"]["cpu.governor"] == "no such file on this kernel"


async def test_the_processor_is_told_from_files(tmp_path: Path) -> None:
    cpus = tmp_path / "sys/devices/system/cpu"
    for core, governor in ((0, "powersave"), (1, "performance")):
        policy = cpus / f"cpufreq/policy{core}"
        policy.mkdir(parents=True)
        (policy / "scaling_governor").write_text(f"{governor}\n")
    for state, (latency, disable) in enumerate([(0, 0), (2, 0), (133, 0), (890, 1)]):
        (cpus / f"cpu0/cpuidle/state{state}").mkdir(parents=True)
        (cpus / f"cpu0/cpuidle/state{state}/latency").write_text(f"{latency}\n")
        (cpus / f"cpu0/cpuidle/state{state}/disable").write_text(f"{disable}\n")
    (cpus / "intel_pstate").mkdir()
    (cpus / "intel_pstate/no_turbo").write_text("1\n")
    aspm = tmp_path / "sys/module/pcie_aspm/parameters"
    aspm.mkdir(parents=True)
    (aspm / "policy").write_text("default performance [powersave] powersupersave\n")
    facts = await collect_facts(LocalHost("dut"), [], root=str(tmp_path))
    assert facts["cpu"]["governor"] == "performance, powersave"
    assert facts["cpu"]["no_turbo"] == 1
    assert facts["cpu"]["idle_exit_latency_us"] == 133  # the deepest is disabled
    assert facts["pcie_aspm_policy"] == "powersave"


async def test_a_name_that_is_a_command_stays_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "x;touch made;$(touch made)'\"`touch made`"
    facts = await collect_facts(LocalHost("dut"), [name], root=str(tmp_path))
    assert facts["interfaces"][name]["mtu"] is None
    assert not (tmp_path / "made").exists()

"""Levels of factors: each knob reads what is there, sets it, sees it and puts it back, with the real `sh` on files in the place of /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.dut.knobs import settings_of
from dutlab.dut.levels import KnobLevel, level_of
from dutlab.errors import HostError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.reboot import insist_on_rebootable
from dutlab.labs import description
from dutlab.spec.factors import LevelCommands

ETHTOOL = (Path(__file__).parents[1] / "stand_ins" / "ethtool.sh").read_text()
FILES = {
    "ethtool-k": "scatter-gather on\ntcp-segmentation-offload on\ngeneric-receive-offload on\nlarge-receive-offload off [fixed]\n",
    "ethtool-g": "rx 256\ntx 256\n",
    "ethtool-l": "rx 1\ntx 4\n",
    "ethtool-c": "adaptive-rx on\nrx-usecs 3\n",
    "sys/class/net/in-a/queues/rx-0/rps_cpus": "00000000,00000001\n",
    "sys/class/net/in-a/queues/rx-1/rps_cpus": "00000000,00000000\n",
    "sys/class/net/in-a/device/msi_irqs/41": "msix\n",
    "sys/class/net/in-a/device/msi_irqs/42": "msix\n",
    "proc/irq/41/smp_affinity_list": "0\n",
    "proc/irq/42/smp_affinity_list": "1-3\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "ondemand\n",
    "sys/devices/system/cpu/cpufreq/boost": "1\n",
    "sys/module/pcie_aspm/parameters/policy": "[default] performance powersave powersupersave\n",
}


class Machine(LocalHost):
    """This one, whose /sys and /proc are files below a folder and whose ethtool is ours."""

    def __init__(self, root: Path) -> None:
        super().__init__("dut")
        self.root = root

    async def run(self, argv, **how):
        *words, text = argv
        text = text.replace(str(self.root), "").replace("/sys/", f"{self.root}/sys/").replace("/proc/", f"{self.root}/proc/")
        return await super().run([*words, f"PATH={self.root}:$PATH ROOT={self.root}; export PATH ROOT\n{text}"], **how)

    def files(self) -> dict[str, str]:
        return {name: (self.root / name).read_text() for name in FILES}


@pytest.fixture
def machine(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "ethtool").write_text(ETHTOOL)
    (tmp_path / "ethtool").chmod(0o755)
    return Machine(tmp_path)


def knob(name, level):
    return KnobLevel(f"{name} {level}", {"dut": settings_of(name, level, ["in-a"])})


@pytest.mark.parametrize(
    ("name", "level", "changed"),
    [
        ("offloads", "gro off, lro off", {"ethtool-k": ("generic-receive-offload on", "generic-receive-offload off")}),
        ("offloads", "sg off", {"ethtool-k": ("scatter-gather on\ntcp-segmentation-offload on", "scatter-gather off\ntcp-segmentation-offload off")}),
        ("rings", "rx 512, tx 256", {"ethtool-g": ("rx 256", "rx 512")}),
        ("queues", "rx 4, tx 4", {"ethtool-l": ("rx 1", "rx 4")}),
        ("coalescing", "adaptive-rx off, rx-usecs 50", {"ethtool-c": ("adaptive-rx on\nrx-usecs 3", "adaptive-rx off\nrx-usecs 50")}),
        ("rps", "0-1,33", {"sys/class/net/in-a/queues/rx-0/rps_cpus": ("00000000,00000001", "2,00000003"), "sys/class/net/in-a/queues/rx-1/rps_cpus": ("00000000,00000000", "2,00000003")}),
        ("irq-affinity", "3,0,1", {"proc/irq/41/smp_affinity_list": ("0", "0-1,3"), "proc/irq/42/smp_affinity_list": ("1-3", "0-1,3")}),
        ("governor", "performance", {f"sys/devices/system/cpu/cpu{n}/cpufreq/scaling_governor": (was, "performance") for n, was in enumerate(["powersave", "ondemand"])}),
        ("boost", "off", {"sys/devices/system/cpu/cpufreq/boost": ("1", "0")}),
    ],
)  # fmt: skip
async def test_a_knob_is_set_and_seen_and_each_value_is_put_back_as_it_was(machine, name, level, changed):
    hosts, before, made = {"dut": machine}, machine.files(), knob(name, level)
    assert not await made.faults(hosts)
    (step,) = await made.undo(hosts)
    assert machine.files() == before, "reading changes nothing"
    (other,) = await made.verify(hosts)
    assert not other.passed and other.statement == f"{name} {level} on dut"
    await made.apply(hosts)
    await made.apply(hosts)  # from the level itself, as after a restart
    assert machine.files() == before | {path: before[path].replace(*how) for path, how in changed.items()}
    (seen,) = await made.verify(hosts)
    assert seen.passed, seen
    for _ in range(2):  # once by the run, and once more from its journal
        await machine.run(step.argv)
    assert {path: numbers(text) for path, text in machine.files().items()} == {path: numbers(text) for path, text in before.items()}


def numbers(text: str) -> str:
    """A mask without its leading zeros, which the kernel prints anew."""
    return (text.strip().lstrip("0,") or "0") + "\n" if text.startswith("0000") else text


async def test_power_management_of_pcie_is_read_from_its_list_and_boost_of_intels_driver_is_the_opposite_of_its_file(machine):
    made = knob("pcie-aspm", "performance")
    (step,) = await made.undo({"dut": machine})
    assert "set -- default;" in step.argv[2]
    await made.apply({"dut": machine})
    assert machine.files()["sys/module/pcie_aspm/parameters/policy"] == "performance\n"
    # Boost of intels driver is the opposite of its file.
    (machine.root / "sys/devices/system/cpu/intel_pstate").mkdir()
    no_turbo = machine.root / "sys/devices/system/cpu/intel_pstate/no_turbo"
    no_turbo.write_text("0\n")
    await knob("boost", "off").apply({"dut": machine})
    assert no_turbo.read_text() == "1\n"
    assert (await knob("boost", "off").verify({"dut": machine}))[0].passed


async def test_the_clock_of_an_openbsd_is_set_by_its_sysctl_and_one_that_the_kernel_keeps_is_named_with_what_to_do(machine):
    """Its sysctl is a stand-in: sysctl(8) of OpenBSD, whose hw.setperf cannot be set unless hw.perfpolicy is manual."""
    (machine.root / "setperf").write_text("100\n")
    kept = '[ -e "$ROOT/auto" ] && { echo "sysctl: hw.setperf: Operation not permitted" >&2; exit 1; }'
    (machine.root / "sysctl").write_text(
        f'#!/bin/sh\ncase $* in\n"-n hw.setperf") cat "$ROOT/setperf";;\nhw.setperf=*) {kept}\necho "${{1#*=}}" >"$ROOT/setperf";;\n*) exit 2;;\nesac\n'
    )
    (machine.root / "sysctl").chmod(0o755)
    made = knob("setperf", "0")
    assert not await made.faults({"dut": machine})
    (step,) = await made.undo({"dut": machine})
    await made.apply({"dut": machine})
    assert ((machine.root / "setperf").read_text(), (await made.verify({"dut": machine}))[0].passed) == ("0\n", True)
    await machine.run(step.argv)
    assert (machine.root / "setperf").read_text() == "100\n"
    (machine.root / "auto").touch()
    with pytest.raises(HostError, match=r"Operation not permitted"):
        await made.apply({"dut": machine})


@pytest.mark.parametrize(
    ("name", "level", "gone", "said"),
    [
        ("offloads", "lro on", "", "off [fixed]"),
        ("offloads", "nosuch on", "", "no feature nosuch"),
        ("governor", "performance", "sys/devices/system/cpu/cpu*", "governor of the cores"),
        ("boost", "on", "sys/devices/system/cpu/cpufreq/boost", "in the firmware"),
        ("rps", "0", "sys/class/net/in-a/queues/*", "CONFIG_RPS"),
        ("irq-affinity", "0", "sys/class/net/in-a/device/msi_irqs", "a virtual port"),
        ("sysctl.net.no.such_thing", "1", "", "sysctl: cannot stat"),
    ],
)  # fmt: skip
async def test_what_the_kernel_does_not_have_is_named_with_what_to_do_and_never_begun(machine, name, level, gone, said):
    for path in machine.root.glob(gone) if gone else ():
        path.rename(machine.root / f"gone-{path.name}")
    (fault,) = await knob(name, level).faults({"dut": machine})
    assert said in fault
    if "[fixed]" not in fault:
        with pytest.raises(HostError) as cannot:
            await knob(name, level).undo({"dut": machine})
        assert cannot.value.host == "dut", "nothing says what is there, so it could not be put back"


async def test_a_value_that_the_kernel_refuses_is_said_with_host_and_answer(machine):
    with pytest.raises(HostError) as refused:
        await knob("offloads", "lro on, gro off").apply({"dut": machine})
    assert refused.value.host == "dut" and all(part in refused.value.what for part in ("lro", "in-a", "Could not change"))
    assert "generic-receive-offload off" in machine.files()["ethtool-k"], "the others are set all the same"


async def test_of_many_values_that_cannot_be_set_the_message_has_the_first_whole():
    made = KnobLevel("mtu 9000", {"dut": settings_of("mtu", "9000", [f"absent-{n}" for n in range(20)])})
    with pytest.raises(HostError, match=r"absent-0 to 9000: .*absent-0"):
        await made.apply({"dut": LocalHost("dut")})


async def test_commands_are_run_in_order_each_on_its_host_and_undone_from_the_last(tmp_path):
    hosts = {name: LocalHost(name) for name in ("sink", "dut")}
    log = tmp_path / "log"
    of = [
        LevelCommands(host="sink", apply=(f"echo sink >> {log}",), verify=("true",), restore=("undo sink",)),
        LevelCommands(apply=(f"echo dut >> {log}",), verify=("echo it is not >&2; exit 3",), restore=("undo dut",)),
    ]
    made = level_of(("gro", "off"), of, description("three-node").testbed, hosts)
    assert [(step.host, step.argv[-1]) for step in await made.undo(hosts)] == [("dut", "undo dut"), ("sink", "undo sink")]
    await made.apply(hosts)
    assert log.read_text() == "sink\ndut\n"
    good, bad = await made.verify(hosts)
    assert good.passed and not bad.passed
    assert "dut" in bad.statement and "3" in bad.found and bad.found.endswith("it is not")


def test_the_mtu_is_of_every_host_on_the_links_and_other_knobs_are_the_duts():
    bed = description("three-node").testbed
    hosts = {name: LocalHost(name) for name in bed.hosts}
    assert {host: len(of) for host, of in level_of(("mtu", "9000"), None, bed, hosts).settings.items()} == {
        "source": 2,
        "dut": 4,
        "sink": 2,
    }
    assert set(level_of(("rps", "off"), None, bed, hosts).settings) == {"dut"}


class _OverSsh(LocalHost):
    """This machine, as if it were reached over a connection."""

    connections, renewals, is_lost = 1, (), False


@pytest.mark.parametrize(("kind", "why"), [(LocalHost, "it is this machine"), (_OverSsh, "its kernel")])
async def test_a_host_with_the_kernel_of_this_machine_is_never_rebooted(kind, why):
    with pytest.raises(HostError, match=why):
        await insist_on_rebootable(kind("dut"))

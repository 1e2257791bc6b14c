"""Processes that are the DUT are not other work: those that the testbed names, and those that its namespaces and ports show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dutlab.hosts.local import LocalHost
from dutlab.sensors.cpu_account import RemoteAccount
from dutlab.sensors.device_processes import DeviceProcesses
from dutlab.spec.account import AccountSpec

ME = os.getpid()


def process(
    proc: Path, pid: int, name: str, *, parent: int = 1, cgroup: str = "/", fds: dict[int, tuple[str, str]] | None = None, environ: str = ""
) -> Path:
    """`fds` is number → where it leads, and its fdinfo."""
    folder = proc / str(pid)
    for sub in ("ns", "fd", "fdinfo"):
        (folder / sub).mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0 0\n")
    (folder / "cgroup").write_text(f"4:cpu:{cgroup}\n0::{cgroup}\n")
    (folder / "ns" / "net").write_text("")
    (folder / "environ").write_text(environ)
    for fd, (to, info) in (fds or {}).items():
        (folder / "fd" / str(fd)).symlink_to(to)
        (folder / "fdinfo" / str(fd)).write_text(info)
    return folder


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    process(tmp_path, ME, "python")
    process(tmp_path, 10, "vpp_main", cgroup="/system.slice/vpp.service")
    process(tmp_path, 11, "qemu-system-x86", fds={5: ("/dev/net/tun", "pos: 0\niff:\ttap-dut\n")})
    process(tmp_path, 12, "dpdk-testpmd", fds={5: ("/dev/vfio/12", "")})
    process(tmp_path, 13, "charon")
    process(tmp_path, 14, "helper", parent=10, cgroup="/system.slice/vpp.service/worker")
    process(tmp_path, 15, "iperf3", parent=ME)
    process(
        tmp_path,
        16,
        "cc1",
        cgroup="/system.slice/vpp.service-of-another",
        fds={5: ("/dev/net/tun", "iff:\ttap-other\n"), 6: ("/dev/vfio/vfio", "")},
    )
    return tmp_path


@pytest.mark.parametrize(
    ("account", "found"),
    [
        ({}, []),
        ({"processes": ("vpp_main",)}, [10]),
        ({"processes": ("qemu-system-x86_64",)}, [11]),  # the kernel keeps fifteen characters
        ({"cgroups": ("system.slice/vpp.service/",)}, [10]),
        ({"units": ("vpp.service",)}, [10]),
        ({"units": ("worker",)}, [14]),
        ({"processes": ("iperf3", "python")}, []),
    ],
)
def test_processes_that_a_testbed_names_are_the_device(proc: Path, account: dict[str, tuple[str, ...]], found: list[int]) -> None:
    assert list(DeviceProcesses((AccountSpec(**account),), proc=proc)()) == found


def test_what_lives_in_a_hosts_namespace_or_holds_a_port_is_the_device(proc: Path) -> None:
    inode = (proc / "13/ns/net").stat().st_ino
    assert list(DeviceProcesses(namespaces=frozenset({inode}), proc=proc)()) == [13]
    assert list(DeviceProcesses(ports=frozenset({"tap-dut"}), proc=proc)()) == [11, 12]


def test_what_dutlab_started_as_the_dut_is_the_device_although_it_descends_from_dutlab(proc: Path) -> None:
    variable = "PATH=/bin\0DUTLAB_DEVICE=/var/tmp/x\0"
    process(proc, 20, "sh", parent=ME, environ=variable)
    process(proc, 21, "ovs-vswitchd", parent=20, environ=variable)
    process(proc, 22, "ovs-vswitchd", environ=variable)  # of another run
    process(proc, 23, "iperf3", parent=ME, environ="NOT_DUTLAB_DEVICE=1")
    assert list(DeviceProcesses(ports=frozenset({"tap-none"}), proc=proc)()) == [12, 20]


async def test_a_host_over_ssh_is_asked_for_the_processes_of_its_device() -> None:
    own_group = Path("/proc/self/cgroup").read_text().splitlines()[0].rpartition(":")[2].strip("/")
    name = Path(f"/proc/{ME}/comm").read_text().strip()
    by_group = [RemoteAccount(LocalHost("far"), AccountSpec(cgroups=(own_group,)))] if own_group else []
    by_name = RemoteAccount(LocalHost("far"), AccountSpec(processes=(name,))), RemoteAccount(LocalHost("far"), started=lambda: (name,))
    for reader in (*by_name, *by_group):
        found = (await reader.read())["far"]
        assert found.programs is not None and ME in found.programs

"""What our threads and other work use of the CPUs, as /proc tells it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.hosts.netns import NetnsHost
from dutlab.physics.interference import CpuAccount, ForwardingWait, ThreadTime
from dutlab.sensors.cpu_account import LocalAccount, RemoteAccount, ThreadLedger, accounts_of
from dutlab.sensors.cpu_account_script import KERNEL_THREADS, SCRIPT, parse_account
from dutlab.sensors.device_processes import DeviceProcesses
from dutlab.sensors.processor_speed import ProcessorSpeed
from dutlab.spec.account import AccountSpec


def account(
    at_s: float, *, busy: float, own: float | None, run: float = 0.0, wait: float = 0.0, programs: frozenset[int] | None = None
) -> CpuAccount:
    return CpuAccount(at_s, 2, busy, 0.0, None, own, {"iperf3": ThreadTime(run, wait)}, programs=programs)


def write_proc(
    proc: Path, processes: dict[int, tuple[str, str, dict[int, tuple[int, int]]]], *, ticks: int, system: int = 0, visible: bool = True
) -> None:
    """Process → name, its children, thread → (ran, waited) in ns. `ticks` and `system` are the machine's user and system time on each of two
    cores. Kernel threads are `visible` where /proc is not that of a process namespace."""
    (proc / "2").mkdir(parents=True, exist_ok=True)
    (proc / "2/comm").write_text("kthreadd\n" if visible else "sh\n")
    cores = "".join(f"cpu{n} {ticks} 0 {system} 100 0 0 7 {3 * n} 0 0\n" for n in range(2))
    (proc / "stat").write_text(f"cpu  0 0 0 0\n{cores}ctxt 1\n")
    for pid, (name, children, threads) in processes.items():
        for tid, (ran, waited) in threads.items():
            task = proc / str(pid) / "task" / str(tid)
            task.mkdir(parents=True, exist_ok=True)
            (task / "children").write_text(children if tid == pid else "")
            (task / "schedstat").write_text(f"{ran} {waited} 1\n")
        ran_ticks = sum(ran for ran, _ in threads.values()) // 10**7
        (proc / str(pid) / "comm").write_text(name + "\n")
        (proc / str(pid) / "stat").write_text(f"{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 {ran_ticks} 0 0 0 20 0 1\n")
        (proc / str(pid) / "schedstat").write_text("{} {} 1\n".format(*threads[pid]))


def test_what_others_used_is_the_machines_work_less_our_own_where_our_programs_are_the_same() -> None:
    found = account(12.0, busy=103.0, own=51.0, run=1.5, wait=0.5).since(account(10.0, busy=100.0, own=50.0, run=0.5, wait=0.5))
    assert (found.seconds, found.others_cpu_s, found.own_cpu_s) == (2.0, 2.0, 1.0)
    assert (found.run_s, found.wait_s, found.wait_share) == (1.0, 0.0, 0.0)
    # A share of nothing is nothing.
    found = account(10.0, busy=1.0, own=1.0).since(account(10.0, busy=1.0, own=1.0))
    assert found.wait_share == 0.0
    # What others used is not known when one of our programs ended in between.
    before, same, other = (account(1.0 + n, busy=n, own=n, programs=frozenset({p})) for n, p in ((0, 7), (1, 7), (2, 8)))
    assert same.since(before).others_cpu_s == 0.0
    assert other.since(before).others_cpu_s is None


def test_a_thread_that_ends_keeps_its_place_in_the_sum() -> None:
    ledger = ThreadLedger()
    ledger.see([(1, "iperf3", ThreadTime(1.0, 0.1)), (2, "iperf3", ThreadTime(2.0, 0.2))])
    ledger.see([(1, "iperf3", ThreadTime(1.5, 0.1))])
    assert ledger.total == {"iperf3": ThreadTime(3.5, pytest.approx(0.3))}
    ledger.see([(2, "iperf3", ThreadTime(0.5, 0.0)), (1, "iperf3", ThreadTime(1.5, 0.1))])  # the number was given to another thread
    assert ledger.total["iperf3"].run_s == pytest.approx(4.0)
    ledger.see([(2, "iperf3", ThreadTime(0.7, 0.0))])
    assert ledger.total["iperf3"].run_s == pytest.approx(4.2)


async def test_this_machines_account_knows_our_own_tree_and_the_threads_that_forward(tmp_path: Path) -> None:
    me = os.getpid()
    ours = {me: ("python", "700", {me: (0, 0)}), 700: ("iperf3", "", {700: (10**9, 0), 701: (10**9, 10**9)})}
    kernel = {80: ("napi/in-a-5", "", {80: (10**9, 2 * 10**9)}), 14: ("ksoftirqd/0", "", {14: (0, 10**8)})}
    strangers = {81: ("napi/in-a-9", "", {81: (5 * 10**9, 5 * 10**9)}), 900: ("cc1", "", {900: (9 * 10**9, 0)})}
    write_proc(tmp_path, {**ours, **kernel, **strangers}, ticks=1000)
    reader = LocalAccount([80], proc=tmp_path, clock=lambda: 5.0)
    found = (await reader.read())[THIS_MACHINE]
    assert found.threads == {"iperf3": ThreadTime(2.0, 1.0), "napi/in-a-5": ThreadTime(1.0, 2.0), "ksoftirqd/0": ThreadTime(0.0, 0.1)}
    assert (found.cores, found.busy_s, found.own_s, found.steal_s, found.pressure_s) == (2, 20.0, 3.0, 0.03, None)


async def test_in_a_process_namespace_the_kernels_time_is_not_that_of_others(tmp_path: Path) -> None:
    """Threads that forward are not in such a /proc. Number 80, which the kernel gives for one of them, is a stranger's there."""
    me = os.getpid()

    def read(ran_ns: int, ticks: int, system: int) -> CpuAccount:
        processes = {me: ("iperf3", "", {me: (ran_ns, ran_ns)}), 80: ("cc1", "", {80: (9 * ran_ns, 0)})}
        write_proc(tmp_path, processes, ticks=ticks, system=system, visible=False)
        return reader.account()

    reader = LocalAccount([80], proc=tmp_path)
    before = read(0, 0, 0)
    found = read(10**9, 50, 75).since(before)  # 1.0 s of user time, ours; 1.5 s of the kernel's, none of a process of ours
    assert (found.own_cpu_s, found.others_cpu_s, found.taken_s) == (2.5, 0.0, 0.0)
    assert found.threads == {"iperf3": ThreadTime(1.0, 1.0), KERNEL_THREADS: ThreadTime(1.5, 0.0)}
    found = read(10**9, 150, 75).since(before)  # others used two seconds in user mode
    assert (found.own_cpu_s, found.others_cpu_s, found.run_s) == (2.5, 2.0, 2.5)


def test_a_host_whose_kernel_threads_are_hidden_is_read_in_the_same_way() -> None:
    def read(comm: str) -> CpuAccount:
        stat = "cpu0 300 0 400 0 0 0 0 0 0 0"
        text = f"\x1euptime\n10.0 1\n\x1estat\n{stat}\n\x1ekernel\n{comm}\n\x1eprograms\nprogram|7|iperf3|{'0 ' * 11}100 150 0\n"
        found = parse_account(text)
        assert found is not None
        return found

    assert (read("kthreadd").busy_s, read("kthreadd").own_s) == (7.0, 2.5)
    assert (read("sh").busy_s, read("sh").own_s, read("sh").threads[KERNEL_THREADS].run_s) == (7.0, 5.0, 2.5)


async def test_the_work_of_the_device_is_not_that_of_others(tmp_path: Path) -> None:
    me = os.getpid()

    async def read(used_ns: int, ticks: int) -> CpuAccount:
        write_proc(tmp_path, {me: ("python", "", {me: (0, 0)}), 70: ("vpp_main", "", {70: (used_ns, 0), 71: (used_ns, 0)})}, ticks=ticks)
        return (await reader.read())[THIS_MACHINE]

    reader = LocalAccount([], devices=DeviceProcesses((AccountSpec(processes=("vpp_main",)),), proc=tmp_path), proc=tmp_path)
    before = await read(7 * 10**9, 0)
    found = (await read(8 * 10**9, 150)).since(before)  # 3 s of the machine, 2 s of them the device's
    assert (found.own_cpu_s, found.others_cpu_s, found.threads["vpp_main"].run_s) == (2.0, 1.0, 2.0)


async def test_the_longest_wait_of_a_thread_that_forwards_is_that_of_one_reading_and_one_thread(tmp_path: Path) -> None:
    now, me = [0.0], os.getpid()

    def write(in_ms: int, out_ms: int, source_ms: int) -> None:
        waited = {80: ("napi/in-a-5", in_ms), 81: ("napi/out-a-6", out_ms), 82: ("napi/eth-a-7", source_ms)}
        kernel = {pid: (name, "", {pid: (10**9, ms * 10**6)}) for pid, (name, ms) in waited.items()}
        write_proc(tmp_path, {me: ("python", "", {me: (0, 0)}), **kernel}, ticks=0)

    async def read(*waited_ms: int) -> CpuAccount:
        write(*waited_ms)
        now[0] += 0.25
        return (await reader.read())[THIS_MACHINE]

    write(0, 0, 0)
    reader = LocalAccount([80, 81, 82], dut_threads=("napi/in-a-", "napi/out-a-"), proc=tmp_path, clock=lambda: now[0])
    await read(0, 0, 0)
    before = await read(900, 0, 0)  # before the trial
    await read(904, 3, 500)
    found = (await read(924, 3, 900)).since(before).forwarding
    assert found == ForwardingWait(run_s=0.0, wait_s=0.027, switches=0, longest_wait_s=0.02, readings=2, with_waits=1)


async def test_the_speed_of_the_cpus_that_forward_is_read_while_a_trial_runs(tmp_path: Path) -> None:
    """Its thread stands for one that serves a port: what counts is on which CPUs it may run."""
    me = os.getpid()
    write_proc(tmp_path, {me: ("python", "", {me: (0, 0)}), 80: ("napi/lan-5", "", {80: (0, 0), me: (10**9, 0)})}, ticks=1000)
    reader = LocalAccount([80], proc=tmp_path)
    before, found = reader.account(), None
    async with reader.running():
        while found is None or found.fixed_work_s is None:
            await asyncio.sleep(0.02)
            found = reader.account().since(before).forwarding
    assert 1e-6 < found.fixed_work_s < 1e-1
    assert (again := reader.account().since(before).forwarding) and again.fixed_work_s is not None, "what was read stays"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("speed of CPU")]


@pytest.mark.parametrize("cpus", [frozenset(), frozenset({10**4})])
def test_a_cpu_that_may_not_be_used_is_not_read(cpus: frozenset[int]) -> None:
    speed = ProcessorSpeed()
    with speed.reading(cpus):
        pass
    assert speed.total() == (0.0, 0)


async def test_a_guest_and_its_processes_are_ours(tmp_path: Path) -> None:
    def proc(of_guest_ns: int, of_its_process_ns: int, ticks: int, child: str = "") -> None:
        processes = {
            os.getpid(): ("python", child, {os.getpid(): (0, 0)}),
            70: ("linux.uml", "71", {70: (of_guest_ns, 0)}),
            71: ("linux.uml", "", {71: (of_its_process_ns, 0)}),
        }
        write_proc(tmp_path, processes, ticks=ticks)

    proc(0, 0, 0)
    reader = LocalAccount([], guests=lambda: [70], proc=tmp_path)
    before = reader.account()
    proc(2 * 10**9, 10**9, 200)  # 4 s of the machine, 3 s of them the guest's
    found = reader.account().since(before)
    assert (found.own_cpu_s, found.others_cpu_s) == (3.0, 1.0)
    assert found.threads["linux.uml"].run_s == 2.0
    reader = LocalAccount([], devices=lambda: [70], proc=tmp_path)
    await reader.read()  # a wrapper, and beneath it the program that is the device
    before = reader.account()
    proc(3 * 10**9, 3 * 10**9, 400)
    assert reader.account().since(before).threads["linux.uml"].run_s == 3.0, "of both"
    before = reader.account()
    proc(4 * 10**9, 4 * 10**9, 600, "70")
    assert reader.account().since(before).own_cpu_s == 2.0, "once, also where it is our child"


async def test_a_guest_that_is_switched_off_and_on_took_nothing_from_the_trial(tmp_path: Path) -> None:
    def proc(guest: int, used_ns: int, ticks: int) -> None:
        me = os.getpid()
        write_proc(tmp_path, {me: ("python", "", {me: (0, 0)}), guest: ("linux.uml", "", {guest: (used_ns, 0)})}, ticks=ticks)
        kernels[:] = [guest]

    kernels = list[int]()
    proc(70, 5 * 10**9, 0)
    reader = LocalAccount([], guests=lambda: kernels, proc=tmp_path)
    before = reader.account()
    shutil.rmtree(tmp_path / "70")
    kernels.clear()
    reader.account()
    proc(71, 10**9, 100)  # it booted: 2 s of the machine, 1 s of them the new kernel's
    found = reader.account().since(before)
    assert (found.own_cpu_s, found.others_cpu_s) == (1.0, 1.0)


async def test_a_copy_of_the_engine_is_an_engine_and_without_a_lab_every_port_is_ours(tmp_path: Path) -> None:
    """A copy has its digest behind its name, of which the kernel keeps fifteen characters; the box of a person has ports of unknown names."""
    me = os.getpid()
    ours = {me: ("python", "700", {me: (0, 0)}), 700: ("dutlab-engine-3", "", {700: (10**9, 0)})}
    write_proc(tmp_path, {**ours, 80: ("napi/lan-5", "", {80: (10**9, 0)})}, ticks=1000)
    found = (await LocalAccount(proc=tmp_path).read())[THIS_MACHINE]
    assert found.threads == {"dutlab-engine-3": ThreadTime(1.0, 0.0), "napi/lan-5": ThreadTime(1.0, 0.0)}
    assert found.own_s == 2.0


async def test_the_time_of_a_port_that_was_taken_away_stays_ours(tmp_path: Path) -> None:
    me = os.getpid()
    write_proc(tmp_path, {me: ("python", "", {me: (10**9, 0)}), 80: ("napi/lan-5", "", {80: (3 * 10**9, 0)})}, ticks=1000)
    reader = LocalAccount(proc=tmp_path)
    before = (await reader.read())[THIS_MACHINE]
    shutil.rmtree(tmp_path / "80")
    write_proc(tmp_path, {me: ("python", "", {me: (2 * 10**9, 0)})}, ticks=1100)
    found = (await reader.read())[THIS_MACHINE].since(before)
    assert (found.own_cpu_s, found.others_cpu_s) == (1.0, 1.0)


async def test_a_machine_that_hides_proc_has_no_account(tmp_path: Path) -> None:
    reader = LocalAccount(proc=tmp_path)
    assert await reader.read() == {}
    async with reader.running():
        pass


BURNT_BY_A_CHILD = """
import asyncio, subprocess, sys
from dutlab.hosts.local import THIS_MACHINE
from dutlab.sensors.cpu_account import LocalAccount

burn = "import time; end = time.process_time() + 0.15\\nwhile time.process_time() < end: pass"

async def main():
    reader = LocalAccount()
    before = (await reader.read())[THIS_MACHINE]
    subprocess.run([sys.executable, "-c", burn], check=True)
    print((await reader.read())[THIS_MACHINE].since(before).own_cpu_s)

asyncio.run(main())
"""


def test_what_a_child_of_ours_burns_is_ours() -> None:
    """The real /proc, in a process that has no other children: those of earlier tests may end meanwhile."""
    done = subprocess.run([sys.executable, "-c", BURNT_BY_A_CHILD], capture_output=True, text=True, check=True)
    assert float(done.stdout) >= 0.1


async def test_the_script_reads_this_kernel_as_python_does() -> None:
    remote = (await RemoteAccount(LocalHost("far")).read())["far"]
    here = (await LocalAccount().read())[THIS_MACHINE]
    assert (remote.cores, remote.programs is not None) == (here.cores, True)
    assert remote.busy_s == pytest.approx(here.busy_s, abs=10)
    assert (remote.pressure_s is None) == (here.pressure_s is None)


def test_the_script_finds_a_running_program_and_its_threads() -> None:
    with subprocess.Popen(["sleep", "20"], stdout=subprocess.DEVNULL) as process:
        try:
            done = subprocess.run(["sh", "-c", SCRIPT, "account", "slee"], capture_output=True, text=True, check=True)
        finally:
            process.kill()
    found = parse_account(done.stdout)
    assert found is not None and found.programs is not None and process.pid in found.programs
    assert "sleep" in found.threads
    # What another system prints is no account.
    assert parse_account("") is None
    assert parse_account("\x1euptime\n\x1estat\n\x1eprograms\n") is None


def test_namespaces_of_this_machine_share_one_reader_and_a_bsd_has_none() -> None:
    here = {"source": NetnsHost("source", "x"), "dut": NetnsHost("dut", "y")}
    assert len(accounts_of(here)._readers) == 1


async def test_reading_goes_on_while_a_trial_runs(tmp_path: Path) -> None:
    me = os.getpid()
    write_proc(tmp_path, {me: ("iperf3", "", {me: (10**9, 0), me + 1: (10**9, 0)})}, ticks=0)
    reader = LocalAccount(proc=tmp_path)
    before = (await reader.read())[THIS_MACHINE]
    async with reader.running():
        write_proc(tmp_path, {me: ("iperf3", "", {me: (10**9, 0), me + 2: (3 * 10**9, 0)})}, ticks=0)
        while (await reader.read())[THIS_MACHINE].threads == before.threads:
            await asyncio.sleep(0.01)
        (tmp_path / str(me) / "task" / str(me + 2) / "schedstat").unlink()
    assert (await reader.read())[THIS_MACHINE].since(before).run_s == pytest.approx(3.0)


async def test_a_program_that_is_suspended_is_seen(tmp_path: Path) -> None:
    me, now = os.getpid(), [10.0]
    write_proc(tmp_path, {me: ("iperf3", "", {me: (10**9, 0)})}, ticks=0)
    reader = LocalAccount(proc=tmp_path, clock=lambda: now[0])
    before = (await reader.read())[THIS_MACHINE]
    stat = tmp_path / str(me) / "stat"
    stat.write_text(stat.read_text().replace(") S ", ") T "))
    now[0] = 10.25
    assert (await reader.read())[THIS_MACHINE].since(before).stopped_s == 0.25


async def test_what_others_use_in_our_pauses_takes_nothing(tmp_path: Path) -> None:
    """Ours ran and waited first, others worked afterwards: the lesser of both in each interval is nothing."""
    me = os.getpid()
    write_proc(tmp_path, {me: ("iperf3", "", {me: (0, 0)})}, ticks=0)
    reader = LocalAccount(proc=tmp_path)
    before = (await reader.read())[THIS_MACHINE]
    write_proc(tmp_path, {me: ("iperf3", "", {me: (10**9, 10**9)})}, ticks=50)  # two cores: 1 s, ours
    await reader.read()
    write_proc(tmp_path, {me: ("iperf3", "", {me: (10**9, 10**9)})}, ticks=100)
    found = (await reader.read())[THIS_MACHINE].since(before)
    assert (found.wait_s, found.others_cpu_s, found.taken_s) == (1.0, 1.0, 0.0)
    write_proc(tmp_path, {me: ("iperf3", "", {me: (10**9, 2 * 10**9)})}, ticks=125)
    assert (await reader.read())[THIS_MACHINE].since(before).taken_s == pytest.approx(0.5)


def test_ticks_that_add_up_over_intervals_are_no_work_of_others() -> None:
    before, after = (
        CpuAccount(at, 2, busy, 0.0, None, 0.0, {"iperf3": ThreadTime(at, at)}, taken_s=taken)
        for at, busy, taken in ((0.0, 0.0, 0.0), (6.0, 0.1, 0.4))
    )
    assert after.since(before).taken_s == 0.1
    assert replace(after, busy_s=0.02).since(before).taken_s == 0.0

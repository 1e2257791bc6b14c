"""Clean-up goes on to its end whoever is cancelled meanwhile, and who is cancelled learns of it."""

import asyncio
import os
import signal
import subprocess
import time

import pytest

from dutlab.ending import cancelled, closing, ended_by, run_to_end
from dutlab.errors import HostError, MeasurementError
from dutlab.hosts.local import LocalHost


class Steps:
    """Clean-up of three steps; whoever carries it out is cancelled at each."""

    def __init__(self, of, fails=False):
        self.of, self.fails, self.done = of, fails, 0

    async def carry_out(self):
        for _ in range(3):
            self.of().cancel()
            await asyncio.sleep(0)
            self.done += 1
        if self.fails:
            raise HostError("cannot be put back", host="dut")


async def outcome(task):
    (found,) = await asyncio.gather(task, return_exceptions=True)
    return found


def begun(work):
    """The task of `work(steps)`, and its steps, of which each cancels it."""
    steps = Steps(lambda: task)
    task = asyncio.ensure_future(work(steps))
    return task, steps


async def test_work_that_is_cancelled_at_each_step_is_done_and_says_so_afterwards():
    task, steps = begun(lambda steps: run_to_end(steps.carry_out()))
    assert isinstance(await outcome(task), asyncio.CancelledError)
    assert steps.done == 3

    # Work that nobody cancels gives what it comes to.
    async def three():
        return 3

    assert await run_to_end(three()) == 3


async def test_an_error_of_the_clean_up_is_not_lost_since_somebody_was_cancelled():
    async def work(steps):
        steps.fails = True
        async with ended_by(steps.carry_out):
            pass

    assert isinstance(await outcome(begun(work)[0]), HostError)


@pytest.mark.parametrize("ends", ["by itself", "by an error", "cancelled"])
async def test_what_follows_a_context_is_done_however_that_ends_and_the_wish_to_end_is_kept(ends):
    async def work(steps):
        try:
            async with ended_by(steps.carry_out):
                if ends == "by an error":
                    raise MeasurementError("wrong")
                if ends == "cancelled":
                    steps.of().cancel()
                    await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            return error

    task, steps = begun(work)
    found = await outcome(task)
    assert steps.done == 3 and isinstance(found, asyncio.CancelledError)
    assert isinstance(found.__cause__, MeasurementError) == (ends == "by an error")


async def test_a_budget_that_ends_during_the_clean_up_cuts_nothing_of_it():
    done = []

    async def slow():
        for n in range(3):
            await asyncio.sleep(0.02)
            done.append(n)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01), ended_by(slow):
            pass
    assert done == [0, 1, 2]


async def test_everything_is_closed_in_order_also_beside_one_that_cannot_be_and_who_is_cancelled():
    closed = []

    class Thing:
        def __init__(self, name):
            self.name = name

        async def close(self):
            task.cancel()
            await asyncio.sleep(0)
            closed.append(self.name)
            if self.name == "b":
                raise HostError("is gone", host="b")

    async def work():
        async with closing(*map(Thing, "abc")):
            pass

    task = asyncio.ensure_future(work())
    assert isinstance(await outcome(task), HostError)
    assert closed == ["a", "b", "c"]


async def test_tasks_have_ended_when_they_were_cancelled_also_for_who_is_cancelled_meanwhile():
    async def inner():
        try:
            await asyncio.sleep(60)
        finally:
            await run_to_end(Steps(lambda: outer).carry_out())

    async def work():
        await asyncio.sleep(0)
        await cancelled(running)

    running = asyncio.ensure_future(inner())
    outer = asyncio.ensure_future(work())
    assert isinstance(await outcome(outer), asyncio.CancelledError)
    assert running.done()


STARTS = """
import asyncio, signal
from dutlab.hosts.local import LocalHost

async def main():
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, int)
    print("ready", flush=True)
    for _ in range(40):
        done = await LocalHost("here").run(["echo", "said"], check=False)
        print(done.status, done.text.strip(), flush=True)

asyncio.run(main())
"""


def under_signals(argv, env):
    """What a program says after "ready" while its process group gets SIGINT, SIGHUP and SIGTERM all the time."""
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True, process_group=0) as running:
        assert running.stdout.readline() == "ready\n"
        while running.poll() is None:
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
                os.killpg(running.pid, number)
            time.sleep(0.002)
        return running.stdout.read().splitlines()


def test_signals_to_our_process_group_keep_no_command_from_being_carried_out(python, python_env):
    said = under_signals([python, "-c", STARTS], python_env)
    assert set(said) == {"0 said"} and len(said) == 40


KEEPS = """
import signal
from dutlab.hosts.keeper import Keeper

for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
print("ready", flush=True)
for _ in range(40):
    keeper = Keeper()
    keeper.watch(2**22 + 1)
    keeper.forget(2**22 + 1)
    shell = keeper._shell
    keeper.close()
    print("kept", shell.returncode, flush=True)
"""


def test_signals_to_our_process_group_end_no_keeper(python, python_env):
    said = under_signals([python, "-c", KEEPS], python_env)
    assert set(said) == {"kept 0"} and len(said) == 40


async def test_a_command_that_ended_itself_by_a_signal_is_carried_out_once(tmp_path):
    runs = tmp_path / "runs"
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:  # of nohup, or of a shell that started the tests in the background
            signal.signal(number, signal.SIG_DFL)
        for _ in range(10):
            done = await LocalHost("here").run(["sh", "-c", f"echo once >> {runs}; kill -{number} $$"], check=False)
            assert done.status == -number
    assert runs.read_text().split() == ["once"] * 30


CHILDREN = """
import os
from dutlab.hosts.keeper import was_program

forked = os.fork() or os._exit(0)
for pid in (forked, os.posix_spawnp("true", ["true"], os.environ)):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    print(was_program(pid))
    os.waitpid(pid, 0)
"""


def test_the_kernel_tells_a_program_that_is_over_from_a_child_that_never_was_one(python, python_env):
    done = subprocess.run([python, "-c", CHILDREN], env=python_env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]

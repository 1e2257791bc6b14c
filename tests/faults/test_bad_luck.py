"""What can go wrong in mid-run, made for real: a wall clock that is set, a tool that hangs, a full disk over there, a login of another country.

Elsewhere: host keys, keys, refusals, sudo and lost connections (test_ssh.py), a DUT that reboots (test_over_ssh.py), a cable that is pulled
(test_cable_pulled.py), a tool that prints garbage or dies, a full disk here (test_main_job.py).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from capability import need_program
from dutlab.errors import HostError
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost
from dutlab.hosts.private_folder import new_private_folder, private_folder
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from dutlab.tools.engine.binary import EngineFile, engine_on, find_engine
from dutlab.tools.iperf3 import tcp
from main_job import forwarded, rules, trial_begun
from processes import LIMIT_S, eventually, running_with
from run_records import records_below
from slow_links import slow_down

pytestmark = pytest.mark.timing

Dutlab = Callable[..., subprocess.CompletedProcess[str]]
CLOCK = Path(__file__).parents[1] / "wrong_clock.c"
EXPERIMENT = """
experiment: bad-luck
testbed: {lab: three-node}
factors: {mode: [nat]}
workloads:
  - iperf3: {streams: 1, omit: 0s, duration: SECONDSs, links: [[a]]}
repeats: 2
"""


@pytest.fixture
def lab(standing_lab: str) -> str:
    """Its DUT is slow."""
    slow_down(f"dutlab-{standing_lab}-dut", "out-a")
    return standing_lab


def test_a_wall_clock_that_is_set_back_in_mid_trial_is_a_doubt_and_no_end(
    python: str, python_env: dict[str, str], lab: str, tmp_path: Path
) -> None:
    need_program("cc")
    need_program("iperf3")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", tmp_path / "clock.so", CLOCK, "-ldl"], check=True)
    (tmp_path / "seconds").write_text("0")
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("SECONDS", "3"))
    argv = [python, "-m", "dutlab", "run", "e.yaml", "--lab", lab]
    env = {**python_env, "LD_PRELOAD": str(tmp_path / "clock.so"), "WRONG_CLOCK": str(tmp_path / "seconds")}
    before = rules(lab)
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        assert eventually(lambda: trial_begun(tmp_path))
        before_it = forwarded(lab)
        assert eventually(lambda: forwarded(lab) > before_it + 100), "it is in the middle of it"
        (tmp_path / "seconds").write_text("-3600")
        _, said = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, said
    set_back, after = records_below(tmp_path)
    (doubt,) = (d for d in set_back["doubts"] if d["kind"] == "CLOCK_JUMPED")
    host, by = doubt["detail"].removesuffix(" s").split(", by ")
    assert host == "this machine" and float(by) == pytest.approx(-3600, abs=1)
    assert set_back["ended"] > set_back["started"]
    assert set_back["figures"]["a"]["goodput_bps"] > 0
    assert not [d for d in after["doubts"] if d["kind"] == "CLOCK_JUMPED"]
    assert rules(lab) == before


def test_a_tool_that_hangs_is_ended_with_all_it_started_and_costs_its_own_trials_only(
    dutlab: Dutlab, lab: str, marker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = need_program("iperf3")
    monkeypatch.setattr(tcp, "GRACE_S", 6.0)
    program = tmp_path / "bin" / "iperf3"
    program.parent.mkdir()
    # It hangs once, deaf to SIGTERM and with a child; the second time it works.
    program.write_text(f"""#!/bin/sh
case "$*" in *-v*|*-s*) exec {real} "$@";; esac
[ -e {tmp_path}/hung ] && exec {real} "$@"
touch {tmp_path}/hung; trap '' TERM; sleep {marker} & while :; do sleep {marker}; done
""")
    program.chmod(0o755)
    (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("SECONDS", "1"))
    before = rules(lab)
    done = dutlab("run", "e.yaml", "--lab", lab, env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    assert done.returncode == 1, done.stderr
    hung, after = records_below(tmp_path)
    assert (hung["status"], after["status"]) == ("failed", "measured"), hung["why"] + after["why"]
    assert "the client did not end within 7 s and was ended" in hung["why"]
    assert running_with(marker) == []
    assert rules(lab) == before


async def test_an_engine_that_does_not_fit_on_the_disk_over_there_says_so_and_leaves_nothing(ssh_login: Login) -> None:
    engine, host = await EngineFile.read(Path(find_engine())), SshHost(ssh_login)
    await host.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/var/tmp"])  # in the mount namespace of this sshd alone
    with pytest.raises(HostError, match=r"box: cannot write /var/tmp/dutlab-\w+/dutlab-engine: No space left on device; free space there"):
        async with engine_on(host, engine, private_folder(host, new_private_folder())):
            pass
    assert (await host.run(["ls", "-A", "/var/tmp"])).text == ""
    await host.run(["umount", "/var/tmp"])
    await host.close()


async def test_a_login_that_prints_what_looks_like_our_marks_changes_no_output(ssh_login: Login) -> None:
    assert ssh_login.config
    keys = ssh_login.config[0].parent / "authorized_keys"
    key = keys.read_text()
    for noise in (r"\036\n", r"\036", r"\0361\n", r"\036-\n", r"\0360\n\036127\n"):
        keys.write_text(f"command=\"printf '{noise}'; printf '{noise}' >&2; eval \\\"$SSH_ORIGINAL_COMMAND\\\"\" {key}")
        plain = subprocess.run(["ssh", "-F", ssh_login.config[0], "box", "true"], capture_output=True, check=True)
        assert plain.stdout.startswith(b"\x1e") and plain.stderr.startswith(b"\x1e")
        host = SshHost(ssh_login)
        async with asyncio.timeout(LIMIT_S):
            done = await host.run(["sh", "-c", "printf 'out\\036\\0365\\n'; printf '\\0369\\n' >&2; exit 7"], check=False)
        assert (done.stdout, done.stderr, done.status) == (b"out\x1e\x1e5\n", b"\x1e9\n", 7)
        await host.close()


async def test_a_login_of_another_language_with_colours_changes_no_output(ssh_login: Login) -> None:
    assert ssh_login.config
    keys = ssh_login.config[0].parent / "authorized_keys"
    colourful = "LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8 LANGUAGE=de CLICOLOR_FORCE=1 FORCE_COLOR=1 TERM=xterm-256color"
    greeting = "printf '\\\\033[31mWillkommen\\\\033[0m\\\\n'"
    keys.write_text(f'command="export {colourful}; {greeting}; eval \\"$SSH_ORIGINAL_COMMAND\\"" {keys.read_text()}')
    host = SshHost(ssh_login)
    told = (
        await host.run(
            ["sh", "-c", "echo $LC_ALL,$NO_COLOR,$TERM,$CLICOLOR_FORCE,$FORCE_COLOR; ls /no/such 2>&1; ip -br link show lo"], check=False
        )
    ).text
    assert told.splitlines()[0] == "C,1,dumb,,"
    assert "No such file or directory" in told
    facts = await collect_facts(host, ["lo"])
    here = await collect_facts(LocalHost("here"), ["lo"])
    for fact in ("os", "kernel", "cpu", "mitigations"):
        assert facts[fact] == here[fact]
    assert "\x1b" not in told + json.dumps(facts)
    await host.close()

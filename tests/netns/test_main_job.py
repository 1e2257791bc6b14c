"""The main job as a user runs it: real namespaces, real frames, the real command."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from capability import need, need_program, needs
from dutlab.cli.examples import example
from dutlab.tools.engine.binary import find_engine
from main_job import EXPERIMENT, SWEEPS, events, only_run, records
from processes import LIMIT_S

ROOT = Path(__file__).parents[2]

_machine = needs("iperf3", "nft")


QUICK = {
    "links: [[a], [b], [a, b]]": "links: [[a, b]]",
    "frame_sizes: [64, 512, 1518], duration: 1s, warmup: 200ms": "frame_sizes: [512], rates: [2kpps], duration: 200ms, warmup: 0s",
}
"""What makes the quick demo quicker still."""


def test_the_quick_demo_leaves_a_whole_run_of_every_mode_a_report_that_can_be_made_again_and_no_lab(dutlab, tmp_path, monkeypatch):
    text = (example("firewall-modes") / "quick.yaml").read_text()
    for written, quicker in QUICK.items():
        assert written in text
        text = text.replace(written, quicker)
    (tmp_path / "quick.yaml").write_text(text)
    monkeypatch.setattr("dutlab.cli.run.example", lambda _: tmp_path)
    done = dutlab("demo", "--quick")
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    (label,) = (e["label"] for e in events(run) if e["event"] == "lab-up")
    assert not list(Path("/run/netns").glob(f"dutlab-{label}-*"))
    assert {p.name for p in run.iterdir()} >= {"experiment.yaml", "resolved.json", "hosts", "journal.jsonl", "trials"}
    assert subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=run).returncode == 0
    found, planned = records(run), json.loads((run / "plan.json").read_text())["trials"]
    assert [r["trial"] for r in found] == [t["number"] for t in planned] and {r["status"] for r in found} == {"measured"}
    assert {r["cell"]["mode"] for r in found} == {"router", "filter-empty", "filter-default", "nat"}
    for r in found:
        assert_accounted(r)
    page = re.search(r"report: (\S+)", done.stdout)
    assert page and (tmp_path / page[1]).is_file()
    again = dutlab("report", str(run), "--format", "csv", "-o", "again.csv")
    assert again.returncode == 0 and (tmp_path / "again.csv").read_text() == (run / "report" / "report.csv").read_text()
    plots = dutlab("plot", str(run), "--format", "png")
    pictures = [tmp_path / line for line in plots.stdout.splitlines()]
    assert pictures and all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)


def assert_accounted(r):
    """A record of the lab says so, has what was run and checked for it, and loses no frame out of its account."""
    assert any(d["kind"] == "EMBEDDED_LAB" for d in r["doubts"])
    assert r["commands"] and all(c["passed"] for c in r["checks"])
    for flow in r["flows"]:
        assert flow["balances"] and flow["sent_frames"] > 0
        assert flow["intended_frames"] == flow["sent_frames"] + flow["refused_frames"]
        assert flow["sent_frames"] + flow["duplicated_frames"] == flow["received_frames"] + flow["lost_frames"]
    for of_machine in r["interference"].values():
        assert of_machine["forwarding"] is None or of_machine["forwarding"]["fixed_work_s"] > 0, "the speed of the processor is read"
    if r["cell"]["tool"] == "iperf3":
        assert all(of_link["goodput_bps"] > 1e7 for of_link in r["figures"].values())


def test_a_mode_that_does_not_hold_measures_nothing_and_the_run_goes_on(dutlab, experiment, tmp_path):
    text = SWEEPS.replace("mode: [router]", "mode: [deaf, router]")
    text += "modes:\n  deaf: {apply: ['sysctl -w net.ipv4.ip_forward=0'], verify: ['true'], restore: ['true']}\n"
    done = dutlab("run", experiment(text))
    assert done.returncode == 1, done.stderr
    by_mode = {mode: [r for r in records(only_run(tmp_path)) if r["cell"]["mode"] == mode] for mode in ("deaf", "router")}
    assert {r["status"] for r in by_mode["deaf"]} == {"refused"} and all(not r["figures"] and "deaf" in r["why"] for r in by_mode["deaf"])
    assert {r["status"] for r in by_mode["router"]} == {"measured"}


def test_a_port_that_shares_its_link_with_the_default_route_is_refused_to_every_generator(dutlab, experiment, standing_lab, tmp_path):
    need_program("trafgen")
    for line in (
        "link add office type bridge",
        "link set eth-a master office",
        "link set office up",
        "addr add 10.9.0.2/24 dev office",
        "route add default via 10.9.0.1 dev office",
    ):
        subprocess.run(["ip", "-n", f"dutlab-{standing_lab}-source", *line.split()], check=True)
    text = SWEEPS.replace(
        "workloads:\n", "workloads:\n  - sweep: {generator: trafgen, frame_sizes: [128], rates: [1kpps], duration: 500ms, links: [[a]]}\n"
    )
    done = dutlab("run", experiment(text), "--lab", standing_lab)
    assert done.returncode in (1, 3), done.stderr
    found = records(only_run(tmp_path))
    for record in found:
        assert record["status"] != "measured" and "office, which shares a link with eth-a," in record["why"] and "isolated" in record["why"]
    assert {"trafgen"} <= {record["cell"]["tool"] for record in found}


def test_a_factor_set_by_hand_is_asked_for_and_unattended_refuses_it(python, python_env, dutlab, experiment, tmp_path):
    text = SWEEPS.replace("mode: [router]", "mode: [router]\n  bios-turbo: ['on', 'off']")
    path = experiment(text)
    refused = dutlab("run", path, "--unattended")
    assert refused.returncode == 2 and "bios-turbo" in refused.stderr, refused.stderr
    assert not (tmp_path / "runs").exists()
    done = subprocess.run(
        [python, "-m", "dutlab", "run", path],
        cwd=tmp_path,
        env=python_env,
        capture_output=True,
        text=True,
        input="did it\ndid that\n",
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    answered = [e for e in events(only_run(tmp_path)) if e["event"] == "answered"]
    assert {(e["question"], e["answer"]) for e in answered} in (
        {("set bios-turbo to on", "did it"), ("set bios-turbo to off", "did that")},
        {("set bios-turbo to off", "did it"), ("set bios-turbo to on", "did that")},
    )
    assert len(records(only_run(tmp_path))) == 2


def test_a_wrong_file_is_refused_whole_before_anything_is_made(dutlab, experiment, tmp_path):
    done = dutlab("run", experiment(EXPERIMENT.replace("lab: three-node", "lab: three-nodes").replace("duration: 300ms", "duration: 1")))
    assert done.returncode == 2, done.stderr
    assert len(re.findall(r"^(?:dutlab: )?\S*experiment\.yaml:\d+:\d+: ", done.stderr, re.MULTILINE)) >= 2, done.stderr
    assert not (tmp_path / "runs").exists()


def ordinary_user(python, env):
    """The words before a command that make it an ordinary user's, and an interpreter that this user may run."""
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"]
    site = next(p for p in sys.path if p.endswith("site-packages"))
    for interpreter in (python, "/usr/bin/python3"):
        own = {**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{site}"}
        # Through sh: what setpriv itself may execute says nothing about what the command may execute later.
        looks = ["sh", "-c", f'"{interpreter}" -c "import dutlab.cli.run" && test -x "{find_engine()}"']
        if subprocess.run([*as_nobody, *looks], env=own, capture_output=True).returncode == 0:
            return as_nobody, interpreter, own
    # The interpreter or this tree is root's alone: a user namespace without root in it has no more rights over the network.
    return ["unshare", "--user", "--map-user=65534", "--map-group=65534"], python, env


def test_an_experiment_runs_without_root_in_a_user_namespace(python, python_env):
    need("userns", subprocess.run(["unshare", "-Urnm", "true"], capture_output=True).returncode == 0)
    as_user, interpreter, env = ordinary_user(python, python_env)
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        Path(home).chmod(0o777)
        Path(home, "experiment.yaml").write_text(SWEEPS.replace("[router]", "[nat]"))
        argv = [*as_user, interpreter, "-m", "dutlab", "run", "experiment.yaml"]
        done = subprocess.run(
            argv, cwd=home, env={**env, "HOME": home, "XDG_CACHE_HOME": home}, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr
        assert "not root" in done.stderr
        assert [r["status"] for r in records(only_run(Path(home)))] == ["measured"]

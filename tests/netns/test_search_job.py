"""A search as a user runs it: through the lab's router, and through one that dies or loses everything."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from capability import need_program
from dutlab.stats.rescore import points_of
from run_records import record_in

ROOT = Path(__file__).parents[2]
GOALS = "goals: [{name: half, loss: 5%, exceed: 25%, final: 200ms, sum: 400ms, width: 25%, initial: 200ms, steps: 1}]"
"""Coarse and short: the limit is to be found on a busy machine, not to be exact."""
EXPERIMENT = f"""
experiment: limits
testbed: {{lab: three-node}}
factors: {{mode: [router]}}
workloads:
  - search: {{{GOALS}, frame_sizes: [512], warmup: 100ms, drain: 200ms, links: [[a]]}}
repeats: 1
"""
LONG_FRAMES = "ip length > 300"  # those of the search; the mode is verified with short ones


def with_rule(rule):
    """The experiment, from 1 to 10 kpps, through a router with one more rule for the frames of the search."""
    chain = "nft add table ip luck && nft 'add chain ip luck f {type filter hook forward priority 5; }'"
    apply = ["sysctl -w net.ipv4.ip_forward=1", f"{chain} && nft 'add rule ip luck f {LONG_FRAMES} {rule}'"]
    mode = {"apply": apply, "restore": ["nft delete table ip luck"]}
    return (
        EXPERIMENT.replace("mode: [router]", "mode: [luck]").replace("warmup:", "lowest: 1kpps, highest: 10kpps, warmup:")
        + f"modes: {{luck: {json.dumps(mode)}}}\n"
    )


@pytest.fixture
def run(dutlab, experiment, tmp_path):
    """Runs the experiment in an empty folder to a good end; returns its record and its folder."""

    def of(text):
        done = dutlab("run", experiment(text))
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        (folder,) = (tmp_path / "runs").iterdir()
        (record,) = folder.glob("trials/*/record.json")
        return record_in(record), folder

    return of


def test_the_limit_of_a_router_is_found_and_every_trial_is_kept(run):
    # It passes 5,000 frames a second on: a rate that the generator makes beside other work too, unlike what the lab's router can do.
    need_program("nft")
    record, folder = run(with_rule("limit rate over 5000/second burst 500 packets drop").replace(", highest: 10kpps", ""))
    (goal,), trials, figures = record["tables"]["goals"], record["tables"]["trials"], record["figures"]["a"]
    assert goal["irregular"] == "", record["notes"]
    assert figures["half/lower_pps"] < 9000, "of more than that it drops more than the twentieth part that the goal allows"
    assert 0 < figures["half/conditional_pps"] <= figures["half/lower_pps"] < figures["half/upper_pps"]
    assert (figures["half/upper_pps"] - figures["half/lower_pps"]) / figures["half/upper_pps"] <= 0.25
    assert figures["search_trials"] == len(trials)
    assert trials[0]["role"] == "reach"
    for trial in trials:  # every frame is accounted for
        assert trial["sent_frames"] == trial["received_frames"] + trial["lost_frames"]
        assert trial["backpressure_frames"] >= 0
    assert {p.load_pps for p in points_of(trials)} >= {goal["lower_pps"], goal["upper_pps"]}
    (raw,) = folder.glob("trials/*/raw/engine-sink.jsonl.gz")
    assert len(gzip.decompress(raw.read_bytes()).splitlines()) > len(trials)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [("drop", "NO_LOWER_BOUND"), ("numgen random mod 2 == 0 drop", "NO_LOWER_BOUND"), ("quota over 1900 kbytes drop", "SEARCH_CUT")],
    ids=["loses everything", "loses some of everything", "dies in mid-search"],
)
def test_a_router_without_a_limit_is_given_none(run, rule, kind):
    # A quota of 1.9 MB is 400 ms of 10 000 frames a second: the first trial comes through, and nothing after the next warm-up.
    need_program("nft")
    record, _ = run(with_rule(rule))
    assert record["status"] == "measured", record["why"]
    assert "half/lower_pps" not in record["figures"]["a"]
    assert [d["kind"] for d in record["doubts"]].count(kind) == 1
    assert record["tables"]["trials"]


def test_the_ready_experiment_and_the_command_find_limits_that_can_be_rescored(dutlab, tmp_path):
    short = {"preset": "quick", "frame_sizes": "1518", "warmup": "0s", "drain": "100ms", "budget": "3s"}
    settings = [f"workloads.search.{key}={value}" for key, value in short.items()] + ["factors.mode=router", "repeats=1"]
    example = ["run", str(ROOT / "examples" / "ndr-pdr" / "experiment.yaml"), *(word for s in settings for word in ("--set", s))]
    command = ["search", "--preset", "quick", "--size", "1518", "--link", "a", "--mode", "router", "drain=100ms", "budget=3s"]
    for nth, argv in enumerate((example, command), 1):
        runs = tmp_path / f"runs-{nth}"
        done = dutlab(*argv, "--runs", str(runs))
        assert done.returncode == 0, done.stderr
        (folder,) = runs.iterdir()
        assert "Goal ndr" in (folder / "report" / "report.md").read_text()
        (found,) = json.loads(dutlab("rescore", str(folder), "--json").stdout)["rescored"]
        assert (found["workload"], found["size"], found["links"]) == ("search", "1518", "a")
        assert found["points"] > 0
        assert {a["definition"]["name"] for a in found["answers"]} >= {"rfc2544", "csit-ndr", "tst009", "ndr-0.001%", "pdr-0.1%"}

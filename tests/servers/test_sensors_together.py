"""A run in a lab with a real server of every protocol of the network at once, then each broken: no fault costs a trial its figures."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import defaultdict
from contextlib import ExitStack, contextmanager, suppress

from capability import need_program
from meter_server import Answers, serve
from network_devices import broker, management_controller, redfish_service, snmp_agent, ups_server
from processes import LIMIT_S, eventually
from run_records import records_below

WATTS = "1.3.6.1.4.1.8072.1.3.2.3.1.1.5.119.97.116.116.115"  # NET-SNMP-EXTEND-MIB::nsExtendOutput1Line."watts"
PLUG = '{"switch:0":{"id":0,"output":true,"apower":70.4}}'
PEERS = ("plug", "snmp", "mqtt", "nut", "ipmi", "redfish")
SECONDS = 7
"""Of a trial: a sensor that is silent for 5 s is said to be."""


def experiment(at):
    sensors = {
        "plug": {"kind": "meter", "model": "shelly", "url": at["plug"]},
        "snmp": {"kind": "snmp", "address": at["snmp"], "oid": WATTS, "community-from": "T_LAB"},
        "mqtt": {"kind": "mqtt", "address": at["mqtt"], "topic": "plug/power", "user": "reader", "password-from": "T_RIGHT"},
        "nut": {"kind": "nut", "address": at["nut"], "ups": "lab"},
        "ipmi": {"kind": "ipmi", "address": at["ipmi"], "user": "reader", "password-from": "T_RIGHT", "every": "3s"},
        "redfish": {"kind": "redfish", "url": at["redfish"], "every": "1s"},
    }
    return {
        "experiment": "all-peers",
        "testbed": {"lab": "back-to-back", "sensors": sensors},
        "factors": {"mode": ["as-found"]},
        "workloads": [{"sweep": {"frame_sizes": [64], "rates": ["1kpps"], "duration": f"{SECONDS}s", "warmup": "0s", "drain": "100ms"}}],
        "repeats": 2,
        "disturbed": "count",
    }


@contextmanager
def published(port):
    """A meter that tells its watts twice a second."""
    argv = [need_program("mosquitto_pub"), "-p", str(port), "-u", "reader", "-P", "right", "-t", "plug/power", "-l"]
    client, over = subprocess.Popen(argv, stdin=subprocess.PIPE), threading.Event()

    def tell():
        while not over.wait(0.5) and client.poll() is None:
            try:
                client.stdin.write(b"70.4\n")
                client.stdin.flush()
            except OSError:
                return

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        client.kill()
        with suppress(OSError):
            client.stdin.close()
        client.wait()


def test_no_fault_of_a_sensor_costs_a_trial_its_figures(dutlab, python, python_env, tmp_path):
    need_program("ipmitool")
    answers, peers, at = Answers(PLUG), {name: ExitStack() for name in PEERS}, {}
    with ExitStack() as all_of_them:
        for name, stack in peers.items():
            all_of_them.push(stack)
            (tmp_path / name).mkdir()
        at["plug"] = peers["plug"].enter_context(serve(answers))
        at["snmp"] = f"127.0.0.1:{peers['snmp'].enter_context(snmp_agent(tmp_path / 'snmp'))}"
        port = peers["mqtt"].enter_context(broker(tmp_path / "mqtt"))
        at["mqtt"] = f"127.0.0.1:{port}"
        peers["mqtt"].enter_context(published(port))
        at["nut"] = f"127.0.0.1:{peers['nut'].enter_context(ups_server(tmp_path / 'nut'))}"
        at["ipmi"] = f"127.0.0.1:{peers['ipmi'].enter_context(management_controller(tmp_path / 'ipmi'))}"
        at["redfish"] = f"http://127.0.0.1:{peers['redfish'].enter_context(redfish_service(tmp_path / 'redfish'))}"
        (tmp_path / "all.json").write_text(json.dumps(experiment(at)))
        secrets = {"T_LAB": "lab", "T_RIGHT": "right"}
        command = [python, "-m", "dutlab", "run", "all.json"]
        with (tmp_path / "said").open("wb") as said:
            run = subprocess.Popen(command, cwd=tmp_path, env={**python_env, **secrets}, stdout=said, stderr=said)
            try:
                assert eventually(lambda: [*tmp_path.glob("runs/*/trials/0001/record.json")] or run.poll() is not None)
                answers.body, answers.kind = b"<html>please log in</html>", "text/html"
                for name in PEERS[1:]:
                    peers[name].close()
                assert run.wait(LIMIT_S) == 0, (tmp_path / "said").read_text()
            finally:
                run.kill()
                run.wait()
    records = records_below(tmp_path)
    assert [r["status"] for r in records] == ["measured"] * 2
    assert all(r["figures"]["a"]["received_pps"] > 0 for r in records)
    failed = {d["detail"].partition(":")[0] for d in records[-1]["doubts"] if d["kind"] == "SENSOR_FAILED"}
    assert failed == set(PEERS)
    told = defaultdict(set)
    asked = "SELECT trial, sensor FROM samples WHERE unit IN ('W', 'degC') GROUP BY ALL"
    done = dutlab("query", asked, "--format", "json")
    for row in json.loads(done.stdout):
        told[row["trial"]].add(row["sensor"])
    assert told[1] == set(PEERS), "all of them told while they could"

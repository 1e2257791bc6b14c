"""Sensors and facts on a real kernel, under real load."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator

import pytest

from capability import have_root, need
from dutlab import labs
from dutlab.errors import HostError
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost
from dutlab.sensors.cores import Sampler
from dutlab.sensors.sensor import SensorSite, Watched
from dutlab.sensors.totals import difference, read_counters
from dutlab.systems.linux_proc import LINUX_CPU
from lab_fixtures import lab_up
from processes import eventually, running_with

pytestmark = pytest.mark.timing


@pytest.fixture
async def lab(label: str) -> AsyncIterator[labs.Lab]:
    async with lab_up("three-node", label) as made:
        await made.hosts()["dut"].run(["sysctl", "-w", "net.ipv4.ip_forward=1"])
        yield made


async def test_every_core_is_sampled_once_in_each_interval(lab: labs.Lab) -> None:
    sampler = Sampler(SensorSite(lab.hosts()["dut"], core=lab.watch_cpu), LINUX_CPU, interval_s=0.5)
    await sampler.start()
    while len(sampler._readings) < 5:
        await asyncio.sleep(0.1)
    found = (await sampler.stop()).samples
    for cpu in range(os.cpu_count() or 1):
        of_core = [s for s in found if s.name.startswith(f"cpu{cpu}_") and s.unit == "%"]
        times = sorted({s.t_s for s in of_core})
        assert len(times) >= 4
        assert all(t_s > n * 0.5 - 0.15 for n, t_s in enumerate(times, 1)), f"more often than twice a second: {times}"
        for t_s in {s.t_s for s in of_core}:
            assert sum(s.value for s in of_core if s.t_s == t_s) == pytest.approx(100.0)


async def test_a_busy_core_is_seen_as_busy() -> None:
    host = LocalHost("dut")
    cpu = max(os.sched_getaffinity(0))
    sampler = Sampler(SensorSite(host), LINUX_CPU, interval_s=0.3)
    await sampler.start()
    burner = await host.spawn(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
    begun_after = len(sampler._readings)
    while len(sampler._readings) < begun_after + 3:
        await asyncio.sleep(0.1)
    await burner.end()
    last = [s for s in (await sampler.stop()).samples if s.name == f"cpu{cpu}_idle_percent"][-1]
    assert last.value < 30.0


async def test_the_sampler_leaves_no_process(lab: labs.Lab) -> None:
    host = lab.hosts()["dut"]
    sampler = Sampler(SensorSite(host), LINUX_CPU, interval_s=987.25)
    await sampler.start()
    assert running_with("987.25")
    await sampler.stop()
    assert eventually(lambda: running_with("987.25") == [])
    assert (await sampler.stop()).samples == []  # no second second has passed: no sample, and no error either


async def test_a_sampler_that_cannot_run_says_so_and_one_never_started_has_nothing(lab: labs.Lab) -> None:
    host = lab.hosts()["dut"]
    assert await Sampler(SensorSite(host), LINUX_CPU).stop() == Watched()
    with pytest.raises(HostError, match="taskset"):
        await Sampler(SensorSite(host, core=4095), LINUX_CPU).start()


async def test_times_count_from_where_the_trial_starts(lab: labs.Lab) -> None:
    sampler = Sampler(SensorSite(lab.hosts()["dut"]), LINUX_CPU, interval_s=0.2)
    await sampler.start()
    while len(sampler._readings) < 3:
        await asyncio.sleep(0.02)
    began, before = time.monotonic(), len(sampler._readings)
    while len(sampler._readings) < before + 5:
        await asyncio.sleep(0.02)
    times = sorted({s.t_s for s in (await sampler.stop(began)).samples})
    assert times[0] < 0 < times[-1] < time.monotonic() - began + 0.1


async def test_what_was_forwarded_is_counted_where_it_passed(lab: labs.Lab) -> None:
    hosts = lab.hosts()
    before = {role: await read_counters(host) for role, host in hosts.items()}
    await hosts["source"].run(["ping", "-n", "-f", "-c", "500", "172.16.10.2"])
    change = {role: difference(before[role], await read_counters(host)) for role, host in hosts.items()}
    assert change["dut"]["in-a_rx_packets"] == change["dut"]["out-a_tx_packets"] == change["sink"]["eth-a_rx_packets"] == 500
    assert change["dut"]["ip_forwarded_datagrams"] == 1000  # each request and each reply
    assert change["dut"]["in-b_rx_packets"] == 0
    assert change["dut"]["softnet_processed"] >= 1000
    assert change["dut"]["softnet_dropped"] == 0


async def test_tracked_connections_are_counted(lab: labs.Lab) -> None:
    need("root", have_root())
    dut, source = lab.hosts()["dut"], lab.hosts()["source"]
    await dut.run(["nft", "add table ip t; add chain ip t c { type filter hook forward priority 0; }; add rule ip t c ct state new accept"])
    await source.run(["ping", "-n", "-c", "2", "-i", "0.1", "172.16.10.2"])
    counters = await read_counters(dut)
    assert counters["conntrack_entries"] == 1
    assert "conntrack_drop" in counters


async def test_facts_of_a_lab_are_complete_or_say_why_not(lab: labs.Lab) -> None:
    facts = await collect_facts(lab.hosts()["dut"], ["in-a", "out-b"])
    assert json.loads(json.dumps(facts)) == facts
    assert facts["sysctls"]["net.ipv4.ip_forward"] == "1"
    assert facts["sysctls"]["net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    port = facts["interfaces"]["in-a"]
    assert (port["driver"], port["kind"], port["mtu"], port["mac"]) == ("veth", "veth", 1500, "02:00:00:00:00:02")
    assert (port["offloads"]["generic-receive-offload"], port["offloads"]["tcp-segmentation-offload"]) == (True, False)
    assert port["speed_mbps"] is None  # whatever veth claims
    assert facts["kernel"]["release"] == os.uname().release
    assert facts["cpu"]["cores"] == os.cpu_count()
    assert facts["memory_bytes"] > 10**8
    for path in absent(facts):
        assert facts["absent"][path], f"{path} is null without a reason"


def absent(facts: dict[str, object]) -> list[str]:
    found = []
    for group, values in facts.items():
        if isinstance(values, dict) and group not in ("absent", "mitigations"):
            for name, value in values.items():
                if group == "interfaces":
                    found += [f"interfaces/{name}/{key}" for key, of_port in value.items() if of_port is None]
                elif value is None:
                    found.append(f"sysctls/{name}" if group == "sysctls" else f"{group}.{name}")
        elif values is None:
            found.append(group)
    return found


async def test_facts_of_a_port_that_is_not_there_are_null_with_the_reason(lab: labs.Lab) -> None:
    facts = await collect_facts(lab.hosts()["dut"], ["no-such"])
    assert facts["interfaces"]["no-such"]["driver"] is None
    assert "does not exist" in facts["absent"]["interfaces/no-such/mtu"]


async def test_facts_hold_no_address_of_a_network_and_no_host_name(lab: labs.Lab) -> None:
    text = json.dumps(await collect_facts(lab.hosts()["dut"], ["in-a"]))
    assert "172.16." not in text
    assert os.uname().nodename not in ("", *text.split('"'))

"""The rig of a real lab without its DUT: measured, cached, found again, gone."""

from __future__ import annotations

import os
import signal

import pytest

from dutlab import labs
from dutlab.choices import Rig
from dutlab.errors import LabError
from dutlab.methods.calibrate import LOADS
from dutlab.runner.headroom import RigLoad
from dutlab.runner.rig import lab_rig
from dutlab.spec.lab_files import description, lab_names
from dutlab.spec.mixes import frame_mix
from dutlab.tools.engine.binary import find_engine
from main_job import ports_of_source
from processes import LIMIT_S, eventually


async def routes(lab):
    hosts = lab.hosts()
    found = [(await host.run(["ip", "route"])).text.splitlines() for host in hosts.values()]
    for host in hosts.values():
        await host.close()
    return found


async def ports(lab):
    hosts = lab.hosts()
    found = [(await host.run(["ls", "/sys/class/net"])).text.split() for host in hosts.values()]
    for host in hosts.values():
        await host.close()
    return found


async def test_the_rig_is_measured_once_then_found_in_the_cache_and_leaves_the_lab_as_it_was(lab, tmp_path):
    before = await ports(lab)
    binary, loads = str(find_engine()), [RigLoad(("a", "b"), frame_mix(512), shares=LOADS[:2])]

    async def measure(versions=None):
        async with lab_rig(lab, binary, versions=versions, disturbed="count") as rig:
            return await rig.measure(Rig.LOOPED, loads, tmp_path)

    found, where = await measure()
    assert where is not None
    assert where.parent == tmp_path
    assert {p.link for p in found.points} == {"a", "b"}
    assert all(0 < p.received_pps <= p.offered_pps for p in found.points)
    (version,) = {p.version for p in found.points}
    again, _ = await measure({"engine": version})
    assert again == found
    anew, _ = await measure({"engine": f"{version}.1"})
    assert anew.measured > found.measured, "nothing is taken of another version"
    assert await ports(lab) == before


# A guest in QEMU has the cables of one in user-mode Linux, and boots more slowly.
@pytest.mark.parametrize("name", [name for name in lab_names() if description(name).settings.kernel != "qemu"])
async def test_a_rig_takes_no_network_and_no_route_of_its_lab(name, label):
    lab = await labs.up(name, label=label)
    try:
        before = await routes(lab)
        if name == "uml-two-sites":
            with pytest.raises(LabError, match="source has its own kernel"):
                async with labs.direct_links(lab):
                    pass
            return
        async with labs.direct_links(lab):
            within = await routes(lab)
            assert all(set(found) <= set(now) for found, now in zip(before, within, strict=True))
        assert await routes(lab) == before
    finally:
        await labs.down(label)


def test_what_a_killed_calibration_left_in_a_standing_lab_goes_with_the_next_one(start, dutlab, standing_lab, tmp_path):
    before, cache = ports_of_source(standing_lab), {"XDG_CACHE_HOME": str(tmp_path / "cache"), "DUTLAB_DISTURBED": "count"}
    running = start("calibrate", "--lab", standing_lab, "--sizes", "64", env=cache)
    assert eventually(lambda: ports_of_source(standing_lab) != before, LIMIT_S)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert ports_of_source(standing_lab) != before, "nobody has put it right by now"
    done = dutlab("calibrate", "--lab", standing_lab, "--sizes", "64", env=cache)
    assert (done.returncode, ports_of_source(standing_lab)) == (0, before), done.stderr

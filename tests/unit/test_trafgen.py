"""What trafgen is given and what it prints, in recorded words of version 0.6.8."""

from __future__ import annotations

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import Done
from dutlab.hosts.local import LocalHost
from dutlab.spec.generators.trafgen import TrafgenModel
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators import counted, trafgen
from dutlab.tools.generators.trafgen import packet_of, read_end
from dutlab.tools.generators.xdp_trafficgen import command, failure_line
from dutlab.units import Pps
from generator_files import TRAFGEN_TWO_CORES, asked, direction

NOISE = b"Cannot set system socket memory in /proc/sys/net/core/rmem_max: Permission denied\n"
GAVE_UP = b"""     1 packets to schedule
  1514 bytes in total
Running! Hang up with ^C!

Flushing TX_RING failed: Resource temporarily unavailable!
"""
NOTHING = b"""           0 packets outgoing
           0 bytes outgoing
           0 sec, 1 usec on CPU0 (0 packets)
"""


def ended(stdout=b"", stderr=b"", status=124):
    return Done("source", ("timeout",), status, stdout, stderr, 0.0, 2.0)


def test_the_frame_has_the_asked_length_without_its_fcs():
    # 14 + 20 + 8 bytes of headers and 18 of payload are 60, 64 with FCS; over IPv6 14 + 40 + 8 and 2
    assert packet_of(direction(), asked(64), 1, None) == (
        "cpu(1): { eth(da=02:00:00:00:00:02), ipv4(id=0, ttl=64, sa=10.0.1.2, da=10.0.2.2), udp(sp=49152, dp=7), fill(0, 18) }\n",
        ["--cpus", "2"],
    )
    assert (
        "ipv6(hl=64, sa=fd00::1, da=fd00::2), udp(sp=49152, dp=7), fill(0, 2)"
        in packet_of(direction("fd00::1", "fd00::2"), asked(68), 0, None)[0]
    )


def test_a_rate_is_a_number_of_frames_and_no_core_and_the_last_words_say_what_was_sent():
    frame, options = packet_of(direction(), asked(rate=1000.0), 0, Pps(1000.0))
    assert frame.startswith("{ eth(") and options == ["--cpus", "1", "--num", "3000", "--rate", "1000pps"]
    # Nothing cannot be asked for.
    assert packet_of(direction(), asked(rate=0.001, seconds=1.0), 0, Pps(0.001))[1] == ["--cpus", "1", "--num", "1", "--rate", "1pps"]
    # Its last words say frames and seconds.
    assert read_end(ended(stdout=TRAFGEN_TWO_CORES, stderr=NOISE), host="source", raw={}) == (568576, 1.980002)


@pytest.mark.parametrize(
    ("done", "why"),
    [
        (ended(stderr=NOISE + GAVE_UP, status=1), "ended with 1 .*TX_RING failed"),
        (ended(status=1), "ended with 1 .*printed nothing"),
        (ended(stdout=NOTHING, status=0), "sent nothing"),
        (ended(stdout=b"\xff\x00 packets outgoing", status=-11), "ended with -11"),
    ],
)
def test_words_that_say_nothing_are_one_sentence_and_the_raw_output_stays(done, why):
    with pytest.raises(ToolFailed, match=f"source: trafgen: {why}") as failed:
        read_end(done, host="source", raw={"trafgen-a-0.txt": done.stdout})
    assert failed.value.raw["trafgen-a-0.txt"] == done.stdout
    assert "socket memory" not in str(failed.value)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a shell script in trafgen's place, on a host that is this machine."""

    def put(script):
        path = tmp_path / "trafgen"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(trafgen, "PROGRAM", str(path))
        return trafgen.Trafgen(TrafgenModel(), GeneratorSite({"source": LocalHost("source")}, None, {}, None))

    return put


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 3", "ended with 3"),
        ("kill -SEGV $$", r"ended with (139|-11)"),
        ("trap '' INT; sleep 30 & wait; sleep 30", "printed nothing"),
        ("head -c 500000 /dev/urandom", "no count"),
    ],
)
async def test_a_program_that_dies_hangs_or_talks_nonsense_is_one_failed_trial(fake, monkeypatch, script, why):
    monkeypatch.setattr(counted, "KILL_S", 0.3)
    with pytest.raises(ToolFailed, match=f"source: trafgen: .*{why}") as failed:
        await fake(script).send(direction(), asked(seconds=0.3))
    assert len(str(failed.value)) < 400
    assert list(failed.value.raw) == ["trafgen-a-0.txt"]


async def test_one_that_only_gives_up_its_ring_is_started_again_with_calls(fake, tmp_path):
    told = await fake(
        f"""case "$*" in
        *--rate*) echo '     1 packets to schedule'; printf '  700 packets outgoing\\n  0 sec, 250000 usec on CPU0 (700 packets)\\n';;
        *) echo 'Flushing TX_RING failed: Resource temporarily unavailable!' >&2; echo x >> {tmp_path}/rings; exit 1;;
        esac"""
    ).send(direction(), asked(seconds=0.3))
    assert (told.tried_frames, told.seconds) == (700, 0.25)
    assert told.facts.keys() == {"trafgen_path"} and not told.doubts
    assert (tmp_path / "rings").read_text() == "x\n"


@pytest.mark.parametrize(("script", "why"), [("exit 127", "not installed"), ("echo something else", "something else")])
async def test_an_absent_or_foreign_trafgen_is_named_with_the_remedy(fake, script, why):
    with pytest.raises(ToolMissing, match=why) as missing:
        await fake(script).check(LocalHost("source"))
    assert (missing.value.tool, missing.value.host) == ("trafgen", "source") and "netsniff-ng" in missing.value.remedy
    assert await fake("echo 'trafgen 0.6.8 (Flutternozzle), Git id: (none)'").check(LocalHost("source")) == "0.6.8"


@pytest.mark.parametrize(("took", "seconds"), [("0 sec, 70013 usec", 3.0), ("4 sec, 500000 usec", 4.5)])
async def test_the_seconds_of_a_rate_are_those_asked_for_or_what_it_took_if_that_was_longer(fake, took, seconds):
    told = await fake(f"printf '  3000 packets outgoing\\n  {took} on CPU0 (3000 packets)\\n'").send(direction(), asked(rate=1000.0))
    assert (told.tried_frames, told.seconds) == (3000, seconds)
    assert [d.kind for d in told.doubts] == [DoubtKind.SENT_IN_BURSTS]


# ---- xdp-trafficgen: the command it is given, and the words in which 1.3.1 said on a kernel 6.18 that it cannot


UNABLE = b"""  libbpf: prog 'tp_xdp_redirect_map_err': failed to find kernel BTF type ID of 'xdp_redirect_map_err': -3
  libbpf: prog 'tp_xdp_redirect_map_err': failed to prepare load attributes: -3
  libbpf: prog 'tp_xdp_redirect_map_err': failed to load: -3
  libbpf: failed to load object 'xdp_trafficgen'
Error probing kernel support: No such process
"""
NOPE = b"Couldn't find network interface 'nope'.\n"
ABLE = b"Transmitting on eth1 (ifindex 7)\n"


def printed(stdout=b"", stderr=b""):
    return Done("source", ("timeout",), 253, stdout, stderr, 0.0, 1.0)


def test_its_own_addresses_stand_where_the_link_has_none_of_ipv6():
    assert command(direction(), asked(68), 1) == [
        "xdp-trafficgen", "udp", "--dst-mac", "02:00:00:00:00:02", "--dst-port", "7", "--threads", "1", "eth1",
    ]  # fmt: skip
    argv = command(direction("fd00::1", "fd00::2"), asked(128), 2)
    assert argv[argv.index("--dst-addr") + 1] == "fd00::2" and argv[argv.index("--pkt-size") + 1] == "124"
    assert argv[argv.index("--threads") + 1] == "2"


@pytest.mark.parametrize(
    ("done", "why"),
    [
        (printed(stderr=UNABLE), UNABLE.splitlines()[2].decode().strip()),
        (printed(stdout=NOPE), NOPE.decode().strip()),
        (printed(stdout=ABLE), ""),
        (printed(), ""),
    ],
)
def test_what_it_cannot_is_said_in_its_first_such_line(done, why):
    assert failure_line(done) == why

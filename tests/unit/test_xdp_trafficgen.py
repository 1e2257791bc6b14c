"""xdp-trafficgen: the command it is given, and the words in which 1.3.1 said on a kernel 6.18 that it cannot."""

from __future__ import annotations

import pytest

from dutlab.hosts.host import Done
from dutlab.tools.generators.xdp_trafficgen import command, why_unable
from generator_files import asked, direction

UNABLE = b"""  libbpf: prog 'tp_xdp_redirect_map_err': failed to find kernel BTF type ID of 'xdp_redirect_map_err': -3
  libbpf: prog 'tp_xdp_redirect_map_err': failed to prepare load attributes: -3
  libbpf: prog 'tp_xdp_redirect_map_err': failed to load: -3
  libbpf: failed to load object 'xdp_trafficgen'
Error probing kernel support: No such process
"""
NOPE = b"Couldn't find network interface 'nope'.\n"
ABLE = b"Transmitting on eth1 (ifindex 7)\n"


def ended(stdout=b"", stderr=b""):
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
        (ended(stderr=UNABLE), UNABLE.splitlines()[2].decode().strip()),
        (ended(stdout=NOPE), NOPE.decode().strip()),
        (ended(stdout=ABLE), ""),
        (ended(), ""),
    ],
)
def test_what_it_cannot_is_said_in_its_first_such_line(done, why):
    assert why_unable(done) == why

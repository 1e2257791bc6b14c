"""What the spec lists by name is what the rooms behind it build."""

from __future__ import annotations

from dutlab import labs
from dutlab.dut import family
from dutlab.spec.known import FAMILY_MODES, LABS


def test_the_modes_of_every_family_that_has_some_are_those_that_it_brings():
    with_modes = {name: list(modes) for name, modes in FAMILY_MODES.items() if modes}
    assert with_modes == {name: list(family(name).modes_among({})) for name in with_modes}


def test_every_lab_that_a_file_may_name_can_be_described_and_has_these_links():
    for name, known in LABS.items():
        testbed = labs.description(name).testbed
        assert len(labs.description(name).settings.guests) == known.guests
        assert {link.name: link.hosts for link in testbed.links.values()} == known.links
        assert {link.name for link in testbed.links.values() if link.segment} == known.segments
        assert {link.source_address.version == 6 for link in testbed.links.values()} <= {known.ipv6}
        assert len({link.sink for link in testbed.links.values()}) == (1 if known.one_sink else len(testbed.links))
        assert {host: tuple(spec.drives) for host, spec in testbed.hosts.items() if spec.drives} == known.drives
        assert testbed.dut is None or testbed.dut_family == known.family
        assert {(link.mtu, link.speed) for link in testbed.links.values()} <= {(1500, None)}  # what the checks of frame sizes go by

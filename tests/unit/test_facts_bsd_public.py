"""Outputs of published machines with a BSD that were read wrongly: the lines that matter, with the facts that they state.

Each comment names where the output was found.
"""

from __future__ import annotations

import pytest

from dutlab.systems.bsd_facts import BsdFacts
from dutlab.systems.bsd_slot import addresses, pciconf_devices, way_to_root
from dutlab.systems.facts import Answers, FactTree

BRIDGE = """bridge0: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500
\tether 02:bd:8f:27:42:00
\tid 00:00:00:00:00:00 priority 32768 hellotime 2 fwddelay 15
\tgroups: bridge
\tnd6 options=41<PERFORMNUD,NO_RADR>
"""
# kellyjonbrazil/jc, ifconfig-extra-fields4 of FreeBSD: no number before the options.
WITHOUT_NUMBER = """mce0: flags=8863<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500
        options RXCSUM,TXCSUM,TSO4,LRO
        media: Ethernet 100GBase-SR4 <full-duplex,rxpause,txpause>
        nd6 options=21<PERFORMNUD,AUTO_LINKLOCAL>
"""
ORDINARY = """hn0: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500
        options=51b<RXCSUM,TXCSUM,TSO4,LRO>
        nd6 options=23<PERFORMNUD,ACCEPT_RTADV,AUTO_LINKLOCAL>
"""


@pytest.mark.parametrize(
    ("text", "offloads"),
    [(BRIDGE, None), (WITHOUT_NUMBER, ["RXCSUM", "TXCSUM", "TSO4", "LRO"]), (ORDINARY, ["RXCSUM", "TXCSUM", "TSO4", "LRO"])],
)
def test_options_of_ipv6_are_no_offloads_of_the_card(text, offloads):  # bridges of vm-bhyve, iocage and pot
    name = text.partition(":")[0]
    facts, bsd = FactTree(), BsdFacts("FreeBSD")
    bsd.put_interface(facts, Answers({bsd.ifconfig(name): (text, "")}, ""), name)
    found = facts.to_json()["interfaces"][name]["offloads"]
    assert (found and list(found)) == offloads


# A board with three re(4) and FreeBSD 9: the line of a link ends before its speed. A port without a card has no speed.
OLD_PCICONF = """pcib6@pci0:0:21:0:      class=0x060400 card=0x00001002 chip=0x43a01002 rev=0x00 hdr=0x01
    cap 10[58] = PCI-Express 2 root port max data 128(128) link x16(x4)
                 speed undef(2.5) ASPM disabled(L0s/L1)
re0@pci0:1:0:0: class=0x020000 card=0x012310ec chip=0x816810ec rev=0x06 hdr=0x00
    cap 10[70] = PCI-Express 2 endpoint IRQ 1 max data 128(128) link x1(x1)
                 speed 2.5(2.5) ASPM disabled(L0s/L1)
"""


def test_a_link_of_an_older_pciconf_has_its_speed_in_the_next_line():
    (card,) = way_to_root(pciconf_devices(OLD_PCICONF), "re0")
    assert (card.link_gts, card.link_gts_most, card.link_width, card.aspm, card.payload_bytes) == (2.5, 2.5, 1, "off", 128)
    (port,) = way_to_root(pciconf_devices(OLD_PCICONF), "pcib6")
    assert (port.link_gts, port.link_gts_most, port.link_width_most, port.aspm) == (None, 2.5, 4, "off")


# PC Engines apu2 with OpenBSD 6.4, a netbook with 7.4: devices without a driver are in other words.
DMESG = """pci0 at mainbus0 bus 0
vendor "AMD", unknown product 0x1567 (class system subclass IOMMU, rev 0x00) at pci0 dev 0 function 2 not configured
ppb0 at pci0 dev 2 function 2 "AMD AMD64 16h PCIE" rev 0x00: msi
pci1 at ppb0 bus 1
em0 at pci1 dev 0 function 0 "Intel I210" rev 0x03: msi, address 00:0d:b9:42:e4:b8
"Intel Pineview Video" rev 0x02 at pci0 dev 2 function 1 not configured
"""


def test_cards_of_published_messages_of_openbsd_have_their_address():
    assert addresses(DMESG) == {"0:2:2": "ppb0", "1:0:0": "em0"}

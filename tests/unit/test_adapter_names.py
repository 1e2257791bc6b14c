"""Names of ports are those of the host's own system: an adapter of Windows may be called `Ethernet 2`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.errors import SpecRefused
from dutlab.spec.loader import load_testbed
from dutlab.spec.testbed import Testbed

TEXT = """testbed: t
hosts:
  source: {{ssh: source, family: {family}}}
  sink: {{ssh: sink}}
links:
  a:
    path: ["source:{port}", sink:eth1]
    addresses: [10.0.1.1/24, 10.0.1.2/24]
"""


def loaded(folder: Path, family: str, port: str) -> Testbed:
    (folder / "t.yaml").write_text(TEXT.format(family=family, port=port), encoding="utf-8")
    return load_testbed(folder / "t.yaml")


@pytest.mark.parametrize("port", ["Ethernet 2", "Wi-Fi", "vEthernet (Default Switch)", "LAN-Verbindung 3", "Сеть 1", "eth0", "Ethernet #2"])
def test_an_adapter_of_windows_has_its_own_name(port: str, tmp_path: Path) -> None:
    testbed = loaded(tmp_path, "windows", port)
    assert testbed.ports_of("source") == [port]
    assert Testbed.model_validate(testbed.model_dump(mode="json")) == testbed


@pytest.mark.parametrize(
    ("family", "port"),
    [
        *(("windows", port) for port in ("", " Ethernet", "Ethernet ", "-x", "a;b", "a$(b)", "a`b", "a|b", "x" * 64, "a\\tb")),
        *((family, "Ethernet 2") for family in ("linux", "freebsd", "openbsd")),
        ("linux", "TenGigabitEthernet3/0/0"),
    ],
)
def test_a_name_that_the_hosts_system_does_not_have_is_refused_at_its_place(family: str, port: str, tmp_path: Path) -> None:
    with pytest.raises(SpecRefused) as refused:
        loaded(tmp_path, family, port)
    assert [fault.path for fault in refused.value.faults] == ["links.a.path.0"]

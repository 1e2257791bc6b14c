"""The calculator on the command line: tables for people, JSON for programs, faults in words."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from dutlab.cli.limits import limits
from dutlab.errors import InputError


def said(*words: str) -> str:
    return CliRunner().invoke(limits, list(words), catch_exceptions=False).output


def refused(*words: str) -> str:
    result = CliRunner().invoke(limits, list(words))
    assert result.exit_code != 0
    return str(result.exception) if isinstance(result.exception, InputError) else result.output


def test_a_table_has_value_formula_and_source() -> None:
    lines = said("ethernet", "--speed", "10G", "--frame", "64").splitlines()
    assert lines[2].split("  ") == ["64 B", "frames a second", "14 880 952.38 pps", "= 10000000000 / ((64 + 20) × 8)", "[1]"]
    assert lines[-1].startswith("[1] RFC 5180 appendix A")


def test_json_has_the_unit_in_every_name() -> None:
    found = json.loads(said("tcp", "--speed", "10G", "--json"))
    assert found["schema_version"] == 1
    by_name = {c["name"]: c for c in found["ceilings"]}
    assert round(by_name["goodput_bps"]["value"] / 1e9, 4) == 9.4148
    assert set(by_name) == {"goodput_bps", "packets_pps", "payload_ratio"}


def test_a_mix_is_taken_by_its_name_or_genome() -> None:
    assert "3 273 679.62" in said("ethernet", "--speed", "10G", "--frame", "imix")
    assert "aaafg" in said("ethernet", "--speed", "10G", "--frame", "aaafg")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("udp", "--speed", "10G", "--ip", "6"), "9.4408 Gb/s"),
        (("tunnel", "esp-aes-gcm", "--nat-t", "--no-timestamps", "--speed", "10G"), "9.0897 Gb/s"),
        (("tunnel", "esp-aes-gcm", "--nat-t", "--speed", "10G"), "9.0117 Gb/s"),  # 1e10 * (1438 - 52) / (1500 + 38)
        (("tcp", "--speed", "1G", "--no-timestamps"), "(118.66 MB/s, 113.16 MiB/s)"),  # as OpenBSD's table has it: 113.2
        (("raid", "1", "--drives", "2", "--read-rate", "1MiB/s"), "2.0972 MB/s"),
        (("raid", "1", "--drives", "2", "--read-rate", "1 MByte/s"), "2 MB/s"),
        (("raid", "60", "--drives", "32", "--groups", "4", "--write-rate", "1GB/s"), "24 GB/s"),
        (("tunnel", "vxlan", "--outer", "6", "--speed", "10G"), "1 430 B"),
        (("pcie", "--gen", "3", "--width", "4", "--payload", "256"), "3.6009 GB/s"),
        (("disk", "sas3", "--lanes", "4"), "4.8 GB/s"),
        (("raid", "5", "--drives", "9", "--read-iops", "100", "--writes", "16%"), "792 IOPS"),
        (("memory", "--mts", "4800", "--channels", "12"), "460.8 GB/s"),
    ],
)
def test_every_kind_of_limit_is_printed(words: tuple[str, ...], printed: str) -> None:
    assert printed in said(*words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("tcp", "--speed", "10Gb"), "an amount"),
        (("ethernet", "--speed", "1G", "--frame", "60"), "64 to"),
        (("tcp", "--speed", "1G", "--mtu", "52"), "52 bytes"),
        (("tunnel", "vxlan", "--nat-t", "--speed", "1G"), "--nat-t"),
        (("pcie", "--gen", "4", "--width", "4", "--devices", "32"), "--devices"),
        (("raid", "0", "--drives", "2", "--read-rate", "7Gbit/s"), "in bytes"),
        (("raid", "5", "--drives", "3", "--read-iops", "1k", "--writes", "0.2"), "share"),
    ],
)
def test_what_is_wrong_is_refused(words: tuple[str, ...], why: str) -> None:
    assert why in refused(*words)


def test_one_unit_of_bit_rates_and_a_head_above_each_column() -> None:
    printed = said("tcp", "--speed", "10G") + said("ethernet", "--speed", "10G", "--frame", "64")
    assert "bit/s" not in printed and "Gb/s" in printed
    head, _, row = printed.splitlines()[:3]
    assert head.split() == ["of", "figure", "at", "most", "formula", "source"] and head.index("formula") == row.index("= ")

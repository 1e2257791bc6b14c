"""Command `rfc2544`: the whole suite without an experiment file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dutlab.choices import ALL_TESTS
from dutlab.cli.expected_rates import EXPECTED_FROM, expected_body
from dutlab.cli.one_workload import SETTINGS, MeasureOptions, measure_workload, where_options
from dutlab.units import number_or_text

QUICK = {"scale": 0.05, "frame_sizes": [64, 1518], "latency_repeats": 2, "burst_repeats": 2, "recovery_repeats": 1, "reset_repeats": 1}
"""Settings of `--quick`: all tests of the suite with the shortest and longest standard frames. Other options override them."""


@click.command()
@SETTINGS
@click.option("--quick", is_flag=True, help="Two sizes, durations of a twentieth, few repeats: about 5 minutes a link.")
@click.option(
    "--scale",
    type=float,
    help="Scale every prescribed duration; the report states it. Not the repeats, which take the most time: see --quick.  [1]",
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="BYTES",
    help="A frame size or mix; repeatable; rfc5180: those for IPv6.  [those of section 9.1]",
)
@click.option("--test", "tests", multiple=True, type=click.Choice([test.value for test in ALL_TESTS]), help="A test; repeatable.  [all]")
@EXPECTED_FROM
@where_options
def rfc2544(
    *,
    settings: tuple[str, ...],
    quick: bool,
    scale: float | None,
    sizes: tuple[str, ...],
    tests: tuple[str, ...],
    expected_from: Path | None,
    where: MeasureOptions,
) -> None:
    """KEY=VALUE is any other setting of the workload: directions=both (section 14), modifiers=broadcast,routing (section 11),
    networks=1,256 (section 12), extension_headers=chain (RFC 5180), latency_repeats=2, burst_repeats=2.

    \b
    Example:
      dutlab rfc2544 --quick --link a
    """
    from dutlab.spec.mixes import SIZES_OF

    written = [number_or_text(size) for size in sizes]
    options = {
        "scale": scale,
        "frame_sizes": (sizes[0] if len(sizes) == 1 and sizes[0] in SIZES_OF else written) or None,
        "tests": [test.value for test in ALL_TESTS if test.value in tests] or None,
    }
    body: dict[str, Any] = {**(QUICK if quick else {}), **{key: value for key, value in options.items() if value is not None}}
    asked = body.get("frame_sizes") or ()
    listed = SIZES_OF[asked] if isinstance(asked, str) else asked
    measure_workload("rfc2544", {**body, **expected_body(expected_from, "rfc2544", listed, where)}, settings, where)

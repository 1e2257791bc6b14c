"""rfc2544: the whole suite without an experiment file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from dutlab.cli.choices import EXTENSION_SETS, MODIFIERS, RFC2544_TESTS
from dutlab.cli.one_workload import measure_workload, testbed_options


@click.command()
@testbed_options
@click.option("--scale", type=float, default=1.0, help="Take this share of every prescribed duration; the report says so.  [1]")
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="BYTES",
    help="A frame size or mix, several times if need be; rfc5180: those for IPv6.  [those of section 9.1]",
)
@click.option("--test", "tests", multiple=True, type=click.Choice(RFC2544_TESTS), help="A test; may be given several times.  [all]")
@click.option("--link", "links", multiple=True, metavar="NAME", help="A link; those given are driven at once.  [each link alone]")
@click.option("--both-ways", "directions", flag_value="both", default="forward", help="Frames go both ways at once (section 14).")
@click.option(
    "--beside",
    "modifiers",
    multiple=True,
    type=click.Choice(MODIFIERS),
    help="What goes on beside the test frames (section 11); may be given several times.",
)
@click.option(
    "--networks",
    multiple=True,
    type=click.Choice(["1", "256"]),
    help="How many networks destinations lie in (section 12); may be given twice.  [1]",
)
@click.option(
    "--extension-headers",
    "headers",
    multiple=True,
    type=click.Choice(EXTENSION_SETS),
    help="IPv6 extension headers of the frames (RFC 5180); may be given several times.  [none]",
)
@click.option("--latency-repeats", type=int, default=20, help="Repeats of the latency test.  [20]")
@click.option("--burst-repeats", type=int, default=50, help="Repeats of the back-to-back test.  [50]")
def rfc2544(
    *,
    scale: float,
    sizes: Sequence[str],
    tests: Sequence[str],
    links: Sequence[str],
    directions: str,
    modifiers: Sequence[str],
    networks: Sequence[str],
    headers: Sequence[str],
    latency_repeats: int,
    burst_repeats: int,
    lab: str | None,
    testbed: Path | None,
    modes: Sequence[str],
    runs: Path,
) -> None:
    """Throughput, latency, frame loss, back-to-back frames, recovery and reset, as RFC 2544 has them.

    \b
    Example:
      dutlab rfc2544 --scale 0.01 --size 64 --size 1518 --link a --latency-repeats 2 --burst-repeats 2
    """  # noqa: D301
    from dutlab.spec.workloads.frames import SIZES_OF  # noqa: PLC0415 -- `--help` needs none of it

    body: dict[str, object] = {
        "scale": scale,
        "directions": directions,
        "latency_repeats": latency_repeats,
        "burst_repeats": burst_repeats,
    }
    if headers:
        body["extension_headers"] = list(dict.fromkeys(headers))
    if networks:
        body["networks"] = [int(count) for count in dict.fromkeys(networks)]
    if modifiers:
        body["modifiers"] = list(dict.fromkeys(modifiers))
    if sizes:
        body["frame_sizes"] = (
            sizes[0] if sizes[0] in SIZES_OF and len(sizes) == 1 else [int(size) if size.isdigit() else size for size in sizes]
        )
    if tests:
        body["tests"] = [name for name in RFC2544_TESTS if name in tests]
    if links:
        body["links"] = [list(links)]
    measure_workload("rfc2544", body, lab=lab, testbed=testbed, modes=modes, runs=runs, order="as-written")

"""matrix: iperf3 between every two hosts without an experiment file."""

from __future__ import annotations

from pathlib import Path

import click

from dutlab.cli.one_workload import measure_workload, testbed_options


@click.command()
@click.option("-P", "--streams", type=int, default=1, help="Parallel streams of a pair.  [1]")
@click.option("-t", "--duration", default="10s", metavar="TIME", help="Of each pair, whole seconds.  [10s]")
@click.option("-O", "--omit", metavar="TIME", help="Left out at the start, while TCP finds its rate.  [1s; none of datagrams]")
@click.option("-Z", "--zerocopy", is_flag=True, help="Send with sendfile(2), which spares the sender a copy.")
@click.option("-u", "--udp", is_flag=True, help="Datagrams instead of TCP.")
@click.option("-l", "--length", type=int, help="Of a datagram's payload, in bytes.  [1448]")
@click.option("-b", "--rate", metavar="RATE", help="Datagrams a second, as in 100kpps.  [as fast as it can]")
@click.option("--link", "links", multiple=True, help="A link of the testbed; may be given several times.  [all]")
@click.option("--repeats", type=click.IntRange(1, 100), default=1, help="[1]")
@testbed_options
def matrix(
    *,
    streams: int,
    duration: str,
    omit: str | None,
    zerocopy: bool,
    udp: bool,
    length: int | None,
    rate: str | None,
    links: tuple[str, ...],
    repeats: int,
    lab: str | None,
    testbed: Path | None,
    modes: tuple[str, ...],
    runs: Path,
) -> None:
    """Measure iperf3 between every two hosts, both ways, one pair at a time: a table, shaded as a heat map.

    \b
    Example:
      dutlab matrix --testbed home.yaml -P 4
    """  # noqa: D301
    body = {
        "streams": streams,
        "duration": duration,
        "protocol": "udp" if udp else None,
        "omit": omit or (None if udp else "1s"),
        "zerocopy": zerocopy or None,
        "length": length,
        "rate": rate,
        "links": [[link] for link in links] or None,
    }
    measure_workload("matrix", body, lab=lab, testbed=testbed, modes=modes, runs=runs, repeats=repeats)

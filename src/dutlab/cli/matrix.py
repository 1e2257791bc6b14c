"""Command `matrix`: iperf3 between every two hosts, without an experiment file."""

from __future__ import annotations

import click

from dutlab.cli.one_workload import SETTINGS, MeasureOptions, measure_workload, where_options


@click.command()
@SETTINGS
@click.option("-P", "--streams", type=int, default=1, help="Parallel streams of a pair.  [1]")
@click.option("-t", "--duration", default="10s", metavar="TIME", help="Duration of each pair, whole seconds.  [10s]")
@click.option("-O", "--omit", metavar="TIME", help="Ignore this time at the start, while TCP finds its rate.  [1s; 0s for datagrams]")
@click.option("-Z", "--zerocopy", is_flag=True, help="Send with sendfile(2), which spares the sender a copy.")
@click.option("-u", "--udp", is_flag=True, help="Datagrams instead of TCP.")
@click.option("-l", "--length", type=int, help="Payload of a datagram, in bytes.  [1448]")
@click.option("-b", "--rate", metavar="RATE", help="Datagrams a second, as in 100kpps.  [as fast as it can]")
@where_options
def matrix(
    *,
    settings: tuple[str, ...],
    streams: int,
    duration: str,
    omit: str | None,
    zerocopy: bool,
    udp: bool,
    length: int | None,
    rate: str | None,
    where: MeasureOptions,
) -> None:
    """\b
    Example:
      dutlab matrix --testbed home.yaml -P 4
    """
    body = {
        "streams": streams,
        "duration": duration,
        "protocol": "udp" if udp else None,
        "omit": omit or (None if udp else "1s"),
        "zerocopy": zerocopy or None,
        "length": length,
        "rate": rate,
    }
    measure_workload("matrix", body, settings, where)

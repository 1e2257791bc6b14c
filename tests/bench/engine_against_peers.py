"""The engine beside trafgen and iperf3 -u: shortest frames through the lab's Linux router, all in one run, interleaved.

Every tool sends from the same namespace, on the same core, for the same time; what arrives is read from the sink port's own counters, so no
tool is judged by its own account. Prints medians, ranges and ratios; a timed figure alone means nothing on a shared machine.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from dutlab import labs
from dutlab.dut.linux import LINUX
from dutlab.hosts.host import Host
from dutlab.methods.mixes import frame_mix
from dutlab.methods.ports import Offer
from dutlab.tools.engine import Engine, find_engine
from dutlab.tools.neighbours import next_hop_mac
from dutlab.units import Seconds

LINK = "a"
UDP_PAYLOAD = 18  # 14 + 20 + 8 + 18 + 4 bytes of FCS are a 64-byte frame


async def packets(host: Host, port: str) -> int:
    """Frames that a port has received since it was made."""
    return int((await host.run(["cat", f"/sys/class/net/{port}/statistics/rx_packets"])).text)


async def arrived(sink: Host, port: str, seconds: float, drive: Callable[[], Awaitable[object]]) -> float:
    """Frames a second that reached `port` while `drive` ran for `seconds`."""
    before = await packets(sink, port)
    await drive()
    await asyncio.sleep(0.3)
    return (await packets(sink, port) - before) / seconds


async def compare(seconds: float, repeats: int) -> dict[str, list[float]]:
    """Tool → frames a second through the router, one value a repeat."""
    lab = await labs.up("three-node")
    hosts = lab.hosts(None)
    source, dut, sink = hosts["source"], hosts["dut"], hosts["sink"]
    link = lab.testbed.links[LINK]
    engine = Engine(hosts, lab.testbed, lab.cpus, str(find_engine()))
    core = str(lab.cpus["source"][0])
    mac = await next_hop_mac(source, link.source.interface, link.dut_in_address.ip)
    own_mac = (await source.run(["cat", f"/sys/class/net/{link.source.interface}/address"])).text.strip()
    server = None
    try:
        await LINUX.modes["router"].apply(dut, lab.testbed)
        with tempfile.TemporaryDirectory() as folder:
            recipe = Path(folder) / "frame.cfg"
            recipe.write_text(
                f"{{ eth(da={mac}, sa={own_mac}), ipv4(saddr={link.source_address.ip}, daddr={link.sink_address.ip}, ttl=64), "
                f"udp(sp=49152, dp=7), fill('x', {UDP_PAYLOAD}) }}\n"
            )
            server = await sink.spawn(["taskset", "-c", str(lab.cpus["sink"][0]), "iperf3", "-s", "-B", str(link.sink_address.ip)])
            await asyncio.sleep(0.3)

            async def ours() -> object:
                return await engine.offer(Offer((LINK,), frame_mix(64), None, Seconds(seconds)))

            async def trafgen() -> object:
                argv = [
                    "timeout",
                    "-s",
                    "INT",
                    str(seconds),
                    "trafgen",
                    "-o",
                    link.source.interface,
                    "-i",
                    str(recipe),
                    "-P",
                    "1",
                    "-b",
                    core,
                    "-q",
                ]
                return await source.run(["taskset", "-c", core, *argv], check=False, timeout_s=seconds + 20)

            async def iperf3() -> object:
                argv = ["iperf3", "-c", str(link.sink_address.ip), "-u", "-b", "0", "-l", str(UDP_PAYLOAD), "-t", f"{seconds:.0f}"]
                return await source.run(["taskset", "-c", core, *argv], check=False, timeout_s=seconds + 20)

            rates: dict[str, list[float]] = {"dutlab-engine": [], "trafgen": [], "iperf3 -u": []}
            for _ in range(repeats):
                for name, drive in (("dutlab-engine", ours), ("trafgen", trafgen), ("iperf3 -u", iperf3)):
                    rates[name].append(await arrived(sink, link.sink.interface, seconds, drive))
            return rates
    finally:
        if server is not None:
            await server.end()
        await engine.close()
        for host in hosts.values():
            await host.close()
        await labs.down(lab.label)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    began = time.monotonic()
    rates = asyncio.run(compare(options.seconds, options.repeats))
    ours = rates["dutlab-engine"]
    print(f"64-byte frames through the lab's router, arrived at the sink; {options.repeats} × {options.seconds} s, {os.cpu_count()} cores")
    for name, values in rates.items():
        ratio = statistics.median(a / b for a, b in zip(ours, values, strict=True) if b)
        print(
            f"  {name:14} median {statistics.median(values) / 1e3:8.1f} kpps  range {min(values) / 1e3:.1f} to {max(values) / 1e3:.1f}   ours ÷ it {ratio:.2f}"
        )
    print(f"  took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

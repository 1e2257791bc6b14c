"""What 20 sensors at 1 Hz take of one core of the controller: CPU time of this process, with them and without, in turns.

    scripts/isolated .venv/bin/python tests/bench/sensors_cost.py [seconds a turn] [turns]

Plugs that tell by HTTP, from a program of its own on this machine, so that its work is not counted. The figure is the difference of two turns
that follow one another, in percent of a core; what the sensors say of themselves (`watch_core_percent`) stands beside it.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.sensors.sensor import WATCH_COST, SensorSite
from dutlab.sensors.watch import Watch, make
from dutlab.spec.sensors import MeterSensor

SENSORS = 20
PLUG = r"""
import socketserver
body = b'{"switch:0":{"id":0,"output":true,"apower":70.4,"voltage":231.0,"current":0.31,"temperature":{"tC":41.2}}}'
class Plug(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline():
            while self.rfile.readline().strip():
                pass
            head = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body)
            self.wfile.write(head + body)
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64
with Server(('127.0.0.1', 0), Plug) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""


async def turn(specs: list[MeterSensor], seconds: float) -> tuple[float, float, int]:
    """Percent of a core that this process took, what the sensors said of themselves, and readings."""
    site = SensorSite(LocalHost(THIS_MACHINE))
    began_s, began_cpu = time.monotonic(), time.process_time()
    async with Watch([sensor for spec in specs if (sensor := make(spec, site)) is not None]) as watch:
        await asyncio.sleep(seconds)
    percent = (time.process_time() - began_cpu) / (time.monotonic() - began_s) * 100
    own: dict[str, list[float]] = {}
    for sample in watch.watched.samples:
        if sample.name == WATCH_COST:
            own.setdefault(sample.sensor, []).append(sample.value)
    return percent, sum(map(statistics.fmean, own.values())), sum(s.unit == "W" for s in watch.watched.samples)


async def main(seconds: float, turns: int) -> None:
    """Prints a line a pair, and the median."""
    with subprocess.Popen([sys.executable, "-c", PLUG], stdout=subprocess.PIPE, text=True) as plug:
        try:
            port = int(plug.stdout.readline()) if plug.stdout else 0
            specs = [MeterSensor(name=f"plug-{n}", url=f"http://127.0.0.1:{port}", model="shelly") for n in range(SENSORS)]
            await turn(specs, 2.0)  # imports are paid once
            found = []
            for number in range(1, turns + 1):
                without, _, _ = await turn([], seconds)
                percent, own, readings = await turn(specs, seconds)
                found.append(percent - without)
                print(f"{number}: {percent:.2f} % with, {without:.2f} % without, {own:.2f} % by themselves, {readings} readings")
            print(f"median {statistics.median(found):.2f} % of a core ({min(found):.2f} to {max(found):.2f})")
        finally:
            plug.terminate()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0, int(sys.argv[2]) if len(sys.argv) > 2 else 5))

"""The kernel-speed back end beside trafgen, iperf3, our own af_packet and the bare kernel, all in one run, interleaved.

Rates are frames per second of CPU time: of the sending process, in which the kernel also does the router's work and the peer's receiving, and of
the kernel's own threads that take over where that becomes too much. Other work on the machine then changes little. Through the router the rates by
the clock are printed too, which only an idle machine can show. Prints each ratio beside what it is asked to be; where a machine cannot show a
figure, the number is printed all the same.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from dutlab.tools.engine.engine import find_engine

ENGINE = str(find_engine())
SHORTEST = 64  # bytes with FCS
QUEUES = (1, 4)  # of the ports that `af_xdp` receives on
PACKET_WAYS = ("sendmmsg", "tx-ring")
FILL = 18  # 14 + 20 + 8 + 18 + 4 bytes of FCS are a 64-byte frame
MACS = {"rx-b": "02:00:00:00:00:02", "in-a": "02:00:00:00:01:02"}


def inside(ns: str, *argv: str) -> list[str]:
    """The command, in a network namespace. `ip` becomes the command, so the process id is its own."""
    return ["ip", "netns", "exec", ns, *argv]


def run(*argv: str) -> str:
    """Runs a command that must succeed."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def used_s(task: Path) -> float:
    """CPU time of a thread (proc(5), schedstat); 0 when it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    return 0.0


def softirq_s() -> float:
    """CPU time of the threads that do the network's work when a sender leaves too much of it (ksoftirqd)."""
    return sum(used_s(Path("/proc") / pid) for pid in run("pgrep", "-x", "ksoftirqd/[0-9]+").split())


class Rate(NamedTuple):
    """Frames a second, of CPU time and by the clock."""

    cpu: float
    wall: float


class Lines:
    """A process that speaks JSON lines."""

    def __init__(self, ns: str, *argv: str) -> None:
        self.process = subprocess.Popen(inside(ns, ENGINE, *argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self) -> dict[str, Any]:
        """The next line. Raises RuntimeError when there is none."""
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            raise RuntimeError(f"{self.process.args!r} ended")
        said: dict[str, Any] = json.loads(line)
        return said

    def write(self, text: str) -> None:
        """Sends a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """One request of the agent's protocol. Raises RuntimeError when it is refused."""
        self.write(json.dumps({"id": 1, "op": op, **arguments}))
        said = self.read()
        if "ok" not in said:
            raise RuntimeError(f"{op}: {said}")
        answer: dict[str, Any] = said["ok"]
        return answer

    def cpu_s(self) -> float:
        """CPU time of all threads (proc(5), schedstat)."""
        return sum(used_s(task) for task in Path(f"/proc/{self.process.pid}/task").iterdir())

    def end(self) -> None:
        """Ends it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def speaking(ns: str, *argv: str) -> Iterator[Lines]:
    """A `Lines` that is ended."""
    lines = Lines(ns, *argv)
    try:
        yield lines
    finally:
        lines.end()


@contextlib.contextmanager
def dropping(ns: str, iface: str) -> Iterator[Callable[[], int]]:
    """A bare drop counter on a port; gives its count."""
    with speaking(ns, "yardstick", "drop", iface) as lines:
        lines.read()

        def count() -> int:
            lines.write("")
            return int(lines.read()["dropped"])

        yield count


class Lab:
    """A cable between `a` and `b`, and `source` – Linux router – `sink`."""

    def __init__(self) -> None:
        self.ns = {role: f"dutlab-bench{os.getpid()}-{role}" for role in ("a", "b", "source", "dut", "sink")}

    def cable(self, one: str, port: str, other: str, far: str, queues: int = 1) -> None:
        """A veth pair whose both ends take redirected frames, and have so many queues."""
        both = ("numrxqueues", str(queues), "numtxqueues", str(queues))
        near = ("ip", "-n", self.ns[one], "link", "add", "name", port, *both, "type", "veth")
        run(*near, "peer", "name", far, "netns", self.ns[other], *both)
        if far in MACS:
            run("ip", "-n", self.ns[other], "link", "set", "dev", far, "address", MACS[far])
        for role, name in ((one, port), (other, far)):
            run("ip", "-n", self.ns[role], "link", "set", "dev", name, "up")
            run(*inside(self.ns[role], "ethtool", "-K", name, "gro", "on"))

    def __enter__(self) -> Self:
        for ns in self.ns.values():
            run("ip", "netns", "add", ns)
            run(*inside(ns, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"))
        self.cable("a", "tx-a", "b", "rx-b")
        for queues in QUEUES:
            self.cable("a", f"q{queues}-a", "b", f"q{queues}-b", queues)
        self.cable("source", "src-a", "dut", "in-a")
        self.cable("dut", "out-a", "sink", "snk-a")
        for role, port, address in (
            ("source", "src-a", "172.16.0.2"),
            ("dut", "in-a", "172.16.0.1"),
            ("dut", "out-a", "172.16.10.1"),
            ("sink", "snk-a", "172.16.10.2"),
        ):
            run("ip", "-n", self.ns[role], "addr", "add", f"{address}/24", "dev", port)
        run("ip", "-n", self.ns["source"], "route", "add", "172.16.10.0/24", "via", "172.16.0.1")
        run("ip", "-n", self.ns["sink"], "route", "add", "172.16.0.0/24", "via", "172.16.10.1")
        run(*inside(self.ns["dut"], "sysctl", "-qw", "net.ipv4.ip_forward=1"))
        mac = json.loads(run("ip", "-j", "-n", self.ns["sink"], "link", "show", "dev", "snk-a"))[0]["address"]
        run("ip", "-n", self.ns["dut"], "neigh", "replace", "172.16.10.2", "lladdr", mac, "dev", "out-a", "nud", "permanent")
        return self

    def __exit__(self, *_: object) -> None:
        for ns in self.ns.values():
            subprocess.run(["ip", "netns", "del", ns], check=False, capture_output=True)


def stream(destination_mac: str, rate: dict[str, Any]) -> dict[str, Any]:
    """Shortest frames from source to sink."""
    return {
        "stream": 1,
        "destination_mac": destination_mac,
        "source": "172.16.0.2",
        "destination": "172.16.10.2",
        "source_port": 40000,
        "destination_port": 5001,
        "sizes": {"fixed_bytes": SHORTEST},
        "rate": rate,
    }


def opened(lines: Lines, iface: str, backend: str, cpu: int | list[int] | None = None) -> None:
    """Opens a port as `p`."""
    pinned = {} if cpu is None else {"cpu": cpu}
    lines.ask("open", port="p", iface=iface, backend=backend, guard={"isolated": True}, **pinned)


def sending(lines: Lines, mac: str, seconds: float, rate: dict[str, Any], streams: int = 1, **more: Any) -> None:
    """Starts to send so many streams, each with `more`."""
    each = [{**stream(mac, rate), **more, "stream": n + 1} for n in range(streams)]
    lines.ask("arm", port="p", send={"duration_ns": round(seconds * 1e9), "streams": each})
    lines.ask("start")


def during(lines: Lines, count: Callable[[], int], seconds: float) -> Rate:
    """Frames a second while it sends, between two looks."""

    def look() -> tuple[int, float, float]:
        return count(), lines.cpu_s() + softirq_s(), time.monotonic()

    time.sleep(0.4)
    before, cpu, clock = look()
    time.sleep(seconds)
    after, cpu_after, clock_after = look()
    return Rate((after - before) / (cpu_after - cpu), (after - before) / (clock_after - clock))


def ours(
    lab: Lab, backend: str, count: Callable[[], int], *, port: str = "tx-a", cpus: int | list[int] = 0, streams: int = 1, **more: Any
) -> Rate:
    """Straight into the dropping peer."""
    with speaking(lab.ns["a"], "agent") as lines:
        opened(lines, port, backend, cpus)
        sending(lines, MACS["rx-b"], 1.6, {"max": True}, streams, **more)
        rate = during(lines, count, 0.9)
        lines.ask("wait", port="p")
    return rate


def of_process(argv: list[str], count: Callable[[], int]) -> Rate:
    """Frames a second of a program that ends by itself."""
    before, soft, clock = count(), softirq_s(), time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    took = time.monotonic() - clock
    frames = count() - before
    return Rate(frames / (used.ru_utime + used.ru_stime + softirq_s() - soft), frames / took)


def trafgen(ns: str, port: str, mac: str, frames: int, folder: Path) -> list[str]:
    """A trafgen that sends the same frame."""
    recipe = folder / f"{port}.cfg"
    recipe.write_text(
        f"{{ eth(da={mac}, sa=02:00:00:00:01:01), ipv4(saddr=172.16.0.2, daddr=172.16.10.2, ttl=64), "
        f"udp(sp=40000, dp=5001), fill(0, {FILL}) }}\n"
    )
    return inside(ns, "taskset", "-c", "0", "trafgen", "-o", port, "-i", str(recipe), "-P", "1", "-q", "-n", str(frames))


def straight(lab: Lab, repeats: int, folder: Path) -> dict[str, list[float]]:
    """What → frames per CPU second, one value a round."""
    rates: dict[str, list[float]] = {what: [] for what in ("xdp", "af_packet", "trafgen", "bare", *PACKET_WAYS)}
    with dropping(lab.ns["b"], "rx-b") as count:
        for _ in range(repeats):
            rates["xdp"].append(ours(lab, "xdp", count).cpu)
            rates["af_packet"].append(ours(lab, "af_packet", count).cpu)
            rates["trafgen"].append(of_process(trafgen(lab.ns["a"], "tx-a", MACS["rx-b"], 500_000, folder), count).cpu)
            rates["bare"].append(yardstick(lab, "send", "tx-a", "4000000"))
            for way in PACKET_WAYS:
                rates[way].append(yardstick(lab, "packet", "tx-a", "1000000", way))
    return rates


ON_CPUS: dict[str, tuple[list[int], int]] = {"one": ([0], 1), "two": ([0, 1], 2), "two that share": ([0, 1], 1)}
"""What sends → its CPUs, and its streams; two CPUs draw the numbers of one stream from one counter."""
VARIED: dict[str, dict[str, Any]] = {
    "xdp": {"field": "source_port", "values": {"step": {"from": 1024, "to": 2047}}},  # a table of flows
    "af_packet": {"field": "ttl", "values": {"random": {"from": 32, "to": 64}}},  # made frame by frame
}


def on_cpus(lab: Lab, repeats: int) -> dict[str, list[Rate]]:
    """What sends → its rates, into a dropping peer that has a queue for each CPU."""
    rates: dict[str, list[Rate]] = {what: [] for what in ON_CPUS}
    with dropping(lab.ns["b"], "q4-b") as count:
        for _ in range(repeats):
            for what, (cpus, streams) in ON_CPUS.items():
                rates[what].append(ours(lab, "xdp", count, port="q4-a", cpus=cpus, streams=streams))
    return rates


def varying(lab: Lab, repeats: int) -> dict[str, tuple[list[float], list[float]]]:
    """Back end → frames a CPU second of a stream with a field that varies, and of the same without."""
    rates: dict[str, tuple[list[float], list[float]]] = {backend: ([], []) for backend in VARIED}
    with dropping(lab.ns["b"], "rx-b") as count:
        for _ in range(repeats):
            for backend, (varied, plain) in rates.items():
                varied.append(ours(lab, backend, count, vary=[VARIED[backend]]).cpu)
                plain.append(ours(lab, backend, count).cpu)
    return rates


def yardstick(lab: Lab, *argv: str) -> float:
    """Frames a CPU second of a sender that does nothing but send."""
    said = json.loads(run(*inside(lab.ns["a"], "taskset", "-c", "0", ENGINE, "yardstick", *argv)))
    return float(said["frames"] / said["cpu_ns"] * 1e9)


def routed(lab: Lab, repeats: int, folder: Path) -> dict[str, list[Rate]]:
    """What → frames a second that arrived behind the router, one value a round."""

    def arrived() -> int:
        return int(run(*inside(lab.ns["sink"], "cat", "/sys/class/net/snk-a/statistics/rx_packets")))

    rates: dict[str, list[Rate]] = {"xdp": [], "trafgen": [], "iperf3": []}
    for _ in range(repeats):
        with speaking(lab.ns["source"], "agent") as source, speaking(lab.ns["sink"], "agent") as sink:
            opened(source, "src-a", "xdp", 0)
            opened(sink, "snk-a", "xdp")
            sink.ask("arm", port="p", receive={"streams": [1], "unverified": True})  # the others' sinks look at nothing at all
            sink.ask("start")
            sending(source, MACS["in-a"], 1.6, {"max": True})
            rates["xdp"].append(during(source, arrived, 0.9))
            sent = source.ask("wait", port="p")["streams"][0]["sent"]
            told = [{"stream": 1, "frames": sent}]
            got = sink.ask("settle", port="p", drain_ns=200_000_000, sent=told)["streams"][0]
            print(f"  router: sent {sent}, received {got['received']}, lost {got['lost']}, balances: {got['balances']}")
        with dropping(lab.ns["sink"], "snk-a") as count:
            rates["trafgen"].append(of_process(trafgen(lab.ns["source"], "src-a", MACS["in-a"], 300_000, folder), count))
        server = subprocess.Popen(inside(lab.ns["sink"], "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        argv = inside(lab.ns["source"], "taskset", "-c", "0", "iperf3", "-c", "172.16.10.2", "-u", "-b", "0", "-l", str(FILL), "-t", "2")
        rates["iperf3"].append(of_process(argv, arrived))
        server.terminate()
        server.wait()
    return rates


def receiving(lab: Lab, repeats: int) -> dict[bool, list[float]]:
    """Our receiver ÷ a bare drop counter, under the same load from one sender; with checksums on trust, and verified."""

    def taken() -> int:
        return int(run(*inside(lab.ns["a"], "cat", "/sys/class/net/tx-a/statistics/tx_packets")))

    ratios: dict[bool, list[float]] = {True: [], False: []}
    with speaking(lab.ns["a"], "agent") as source, speaking(lab.ns["b"], "agent") as sink:
        opened(source, "tx-a", "xdp", 0)
        opened(sink, "rx-b", "xdp")
        sending(source, MACS["rx-b"], 6 * repeats + 5, {"max": True})
        for _ in range(repeats):
            with dropping(lab.ns["b"], "rx-b"):
                bare = during(source, taken, 0.6).cpu
            for unverified, each in ratios.items():
                sink.ask("arm", port="p", receive={"streams": [1], "unverified": unverified})
                sink.ask("start")
                each.append(during(source, taken, 0.6).cpu / bare)
                sink.ask("settle", port="p", drain_ns=1, sent=[{"stream": 1, "frames": 0}])
        source.ask("stop")
        source.ask("wait", port="p")
    return ratios


def over_queues(lab: Lab, repeats: int) -> dict[int, list[float]]:
    """Queues of a port → frames a CPU second of its `af_xdp` receiver, a thread for each queue; four streams from one CPU."""
    rates: dict[int, list[float]] = {count: [] for count in QUEUES}
    for _ in range(repeats):
        for count, each in rates.items():
            with speaking(lab.ns["a"], "agent") as source, speaking(lab.ns["b"], "agent") as sink:
                opened(source, f"q{count}-a", "af_xdp", [0] * count)
                opened(sink, f"q{count}-b", "af_xdp", 1)
                sink.ask("arm", port="p", receive={"streams": [1, 2, 3, 4]})
                sink.ask("start")
                streams = [{**stream(MACS["rx-b"], {"pps": 25_000}), "stream": n} for n in (1, 2, 3, 4)]
                source.ask("arm", port="p", send={"duration_ns": 1_800_000_000, "streams": streams})
                source.ask("start")

                def arrived(sink: Lines = sink) -> int:
                    return sum(s["received"] for s in sink.ask("status", port="p")["receiving"]["streams"])

                each.append(during(sink, arrived, 1.0).cpu)
                sent = source.ask("wait", port="p")["streams"]
                told = [{"stream": s["stream"], "frames": s["sent"]} for s in sent]
                got = sink.ask("settle", port="p", drain_ns=200_000_000, sent=told)["streams"]
                lost = sum(s["lost"] for s in got)
                print(f"  {count} queues: sent {sum(s['sent'] for s in sent)}, lost {lost}, balance: {all(s['balances'] for s in got)}")
    return rates


def paced(lab: Lab, rates: list[float], seconds: float) -> None:
    """Prints rate and gap errors of paced streams into a dropping peer."""
    with dropping(lab.ns["b"], "rx-b"), speaking(lab.ns["a"], "agent") as lines:
        opened(lines, "tx-a", "xdp", 0)
        for pps in rates:
            sending(lines, MACS["rx-b"], seconds, {"pps": pps})
            s = lines.ask("wait", port="p")["streams"][0]
            span = (s["last_monotonic_ns"] - s["first_monotonic_ns"]) / 1e9
            error = abs((s["sent"] - 1) / span / pps - 1)
            off = sorted((abs(upper - 1e9 / pps), n) for upper, n in s["gaps"]["histogram"])
            rank, p99 = 0.99 * s["gaps"]["count"], 0.0
            for distance, n in off:
                rank -= n
                if rank <= 0:
                    p99 = distance
                    break
            asked = ", asked: ≤ 5" if pps == 100_000 else ""
            print(
                f"  {pps:11,.0f} pps: rate error {error:.4%} (asked: ≤ 0.1 %), of {s['intended']} the peer had no room for "
                f"{s['backpressure']} and {s['refused'] - s['backpressure']} were not made in time, latest {s['late_max_ns'] / 1e6:.1f} ms, gap error p99 {p99 / 1e3:.2f} µs{asked}"
            )


def ratio(what: str, over: list[float], under: list[float], asked: float) -> None:
    """Prints a ratio: the median of those of each round."""
    each = sorted(a / b for a, b in zip(over, under, strict=True))
    print(
        f"  {what:34} {statistics.median(over) / 1e6:7.3f} / {statistics.median(under) / 1e6:7.3f} Mpps = {statistics.median(each):6.2f}"
        f"  ({each[0]:.2f} to {each[-1]:.2f}; asked: ≥ {asked})"
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--paced-seconds", type=float, default=10)
    options = parser.parse_args()
    began = time.monotonic()
    print(f"64-byte frames with probe, frames per CPU second of the sender; {options.repeats} rounds, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder, Lab() as lab:
        rates = straight(lab, options.repeats, Path(folder))
        ratio("straight: xdp ÷ bare live frames", rates["xdp"], rates["bare"], 0.9)
        ratio("straight: xdp ÷ trafgen", rates["xdp"], rates["trafgen"], 8)
        ratio("straight: xdp ÷ our af_packet", rates["xdp"], rates["af_packet"], 4)
        ratio("packet socket: sendmmsg ÷ TX_RING", rates["sendmmsg"], rates["tx-ring"], 1)
        for backend, (varied, plain) in varying(lab, options.repeats).items():
            ratio(f"{backend}: a field that varies ÷ none", varied, plain, 0.8)
        if (os.cpu_count() or 1) > 1:
            by_cpus = on_cpus(lab, options.repeats)
            for what, over, under, asked in (
                ("two CPUs, a stream each ÷ one CPU", "two", "one", 1.6),
                ("two CPUs: one stream ÷ a stream each", "two that share", "two", 0.9),
            ):
                ratio(what, [r.wall for r in by_cpus[over]], [r.wall for r in by_cpus[under]], asked)
                ratio("  the same per CPU second", [r.cpu for r in by_cpus[over]], [r.cpu for r in by_cpus[under]], 0.8)
        through = routed(lab, options.repeats, Path(folder))
        for peer, asked in (("trafgen", 3), ("iperf3", 4)):  # iperf3 -u -l 18
            ratio(f"router: xdp ÷ {peer}", [r.cpu for r in through["xdp"]], [r.cpu for r in through[peer]], asked)
            ratio("  the same by the clock", [r.wall for r in through["xdp"]], [r.wall for r in through[peer]], asked)
        for unverified, ratios in receiving(lab, options.repeats).items():
            each, how = sorted(ratios), "checksums on trust; asked: ≥ 0.9" if unverified else "every checksum verified; asked: ≥ 0.9"
            print(f"  receive: account ÷ bare XDP drop = {statistics.median(each):.2f}  ({each[0]:.2f} to {each[-1]:.2f}; {how})")
        by_queues = over_queues(lab, options.repeats)
        one, several = (by_queues[count] for count in QUEUES)
        ratio(f"receive by af_xdp: {QUEUES[1]} queues ÷ 1", several, one, 0.8)
        most = statistics.median(rates["xdp"])
        paced(lab, [1e3, 1e4, 1e5, 1e6, round(0.8 * most, -3)], options.paced_seconds)
    print(f"  took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

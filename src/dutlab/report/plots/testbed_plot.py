"""Block diagram of a testbed: a box a host, in rows from the sources to the sinks; a line a cable, with its ports, speed and network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutlab.printable import printable
from dutlab.report.model.testbed_map import MapCable, MapHost, MapLink, MapPort, TestbedMap, neighbours
from dutlab.report.plots.palette import FAINT, INK, PAPER, QUIET, series_colour
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.svg import SvgDrawing, text_width

TESTBED_PLOT = "testbed"
"""Name of the diagram among the plots of a run."""
LEAST_WIDTH, LEAST_COLUMN, MOST_COLUMN = 330.0, 138.0, 230.0
NAME_SIZE, TEXT_SIZE = 14.0, 12.0
ROW_HEIGHT, PADDING = 17.0, 11.0
CABLE, GAP = 104.0, 16.0
"""Distance between rows that a cable joins, and between rows without one."""
TAP, BUS_APART = 128.0, 30.0
"""Distance from a segment's line to the boxes, and between the lines of two segments."""
INSET = 6.0
MOST_LINES = 8


@dataclass(frozen=True)
class _Box:
    host: MapHost
    left: float
    right: float
    top: float
    bottom: float
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Lane:
    """Column of a link. A cable that several links share is drawn in the column of the first, with the names of all."""

    link: MapLink
    cables: Sequence[tuple[MapCable, str]]
    x: float
    room: float
    """Width of its texts."""
    colour: str


def plot_of_testbed(testbed: TestbedMap) -> Plot:
    """Draw the testbed. All text is from the testbed file, and is cut to its place."""
    lanes = [link for link in testbed.links if link.cables]
    buses = [link for link in testbed.links if link.segment]
    column = _column_width(lanes)
    width = max(LEAST_WIDTH, column * len(lanes))
    column = width / max(1, len(lanes))
    boxes, bottom = _boxes(testbed, lanes, buses, column, width)
    d = SvgDrawing()
    left = _draw_buses(d, buses, boxes)
    shared: dict[tuple[MapPort, MapPort], list[str]] = {}
    for link in lanes:
        for cable in link.cables:
            shared.setdefault((cable.near, cable.far), []).append(link.name)
    for at, link in enumerate(lanes):
        own = [(cable, "+".join(names)) for cable in link.cables if (names := shared[cable.near, cable.far])[0] == link.name]
        _draw_path(d, _Lane(link, own, at * column + 24, column - 34, series_colour(at)), boxes)
    for box in boxes:
        _draw_box(d, box)
    title = printable(f"Testbed {testbed.name}".strip())
    hosts = printable(", ".join(host.name for host in testbed.hosts))
    top = -8.0 - (ROW_HEIGHT * len(buses) + 7 if buses else 0)
    return Plot(
        name=TESTBED_PLOT, title=title, described=f"{title}: a box for each of {hosts}, and a line for each cable",
        drawing=d, box=(left - 4, top, width - left + 8, bottom - top + 8), note=testbed.left_out,
    )  # fmt: skip


def _column_width(lanes: Sequence[MapLink]) -> float:
    texts = [text for link in lanes for cable in link.cables for text in _cable_texts(link, cable)]
    return min(MOST_COLUMN, max([LEAST_COLUMN, *(text_width(text, TEXT_SIZE) + 36 for text in texts)]))


def _cable_texts(link: MapLink, cable: MapCable) -> tuple[str, str, str, str]:
    return cable.near.interface, _words(link.name, link), cable.network, cable.far.interface


def _words(name: str, link: MapLink) -> str:
    return " · ".join((name, *link.words))


def _boxes(
    testbed: TestbedMap, lanes: Sequence[MapLink], buses: Sequence[MapLink], column: float, width: float
) -> tuple[list[_Box], float]:
    """Return the boxes of all hosts, one for each run of neighbouring columns, and where the last one ends."""
    by_name = {host.name: host for host in testbed.hosts}
    cabled = [{host for cable in link.cables for host in (cable.near.host, cable.far.host)} for link in lanes]
    boxes, top = list[_Box](), 0.0
    for n, row in enumerate(testbed.rows):
        in_row, lowest = list[_Box](), top
        for name in row:
            columns = neighbours([at for at, hosts in enumerate(cabled) if name in hosts])
            spans = [(first * column, (last + 1) * column) for first, last in columns] or [(0.0, width)]
            taps = sum(port.host == name for bus in buses for port in bus.segment)
            for start, end in spans:
                lines = _wrapped(by_name[name].lines, end - start - 2 * INSET - 2 * PADDING)
                height = max(2 * PADDING + ROW_HEIGHT * (1 + len(lines)), taps * 2 * ROW_HEIGHT)
                in_row.append(_Box(by_name[name], start + INSET, end - INSET, top, top + height, lines))
                lowest = max(lowest, top + height)
        boxes += [_Box(b.host, b.left, b.right, b.top, lowest, b.lines) for b in in_row]
        hosts_above = {name for r in testbed.rows[: n + 1] for name in r}
        hosts_below = {name for r in testbed.rows[n + 1 :] for name in r}
        crossed = any(hosts & hosts_above and hosts & hosts_below for hosts in cabled)
        top = lowest + (0.0 if n + 1 == len(testbed.rows) else CABLE if crossed else GAP)
    return boxes, top


def _wrapped(lines: Sequence[str], room: float) -> tuple[str, ...]:
    """Return the lines broken at spaces to fit into `room` pixels; a longer word is cut, and so are more than MOST_LINES."""
    out = list[str]()
    for line in lines:
        current = ""
        for word in line.split():
            longer = f"{current} {word}".strip()
            if current and text_width(longer, TEXT_SIZE) > room:
                out.append(_cut(current, room))
                longer = word
            current = longer
        out.append(_cut(current, room))
    return tuple(out) if len(out) <= MOST_LINES else (*out[: MOST_LINES - 1], "…")


def _cut(text: str, room: float, size: float = TEXT_SIZE) -> str:
    text, most = printable(text), max(2, int(room / text_width("m", size)))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _draw_box(d: SvgDrawing, box: _Box) -> None:
    d.rect(box.left, box.top, box.right - box.left, box.bottom - box.top, colour=PAPER)
    outline = [(box.left, box.top), (box.right, box.top), (box.right, box.bottom), (box.left, box.bottom), (box.left, box.top)]
    d.path(outline, colour=INK if box.host.is_dut else FAINT, width=2.25 if box.host.is_dut else 1.25)
    middle = box.top + (box.bottom - box.top) / 2 - ROW_HEIGHT * len(box.lines) / 2
    name = _cut(box.host.name, box.right - box.left - 2 * PADDING, NAME_SIZE)
    d.text((box.left + box.right) / 2, middle, name, size=NAME_SIZE, anchor="middle", bold=True)
    for n, line in enumerate(box.lines, 1):
        d.text((box.left + box.right) / 2, middle + n * ROW_HEIGHT, line, size=TEXT_SIZE, colour=QUIET, anchor="middle")


def _draw_path(d: SvgDrawing, lane: _Lane, boxes: Sequence[_Box]) -> None:
    """Draw the cables of a lane, with the ports at both ends, and speed and network in the middle."""
    x, room, colour = lane.x, lane.room, lane.colour
    for cable, name in lane.cables:
        near, far = (_box_at(boxes, port.host, x) for port in (cable.near, cable.far))
        (upper, above), (lower, below) = sorted(((near, cable.near), (far, cable.far)), key=lambda end: end[0].top)
        d.line(x, upper.bottom, x, lower.top, colour=colour, width=2.25)
        for y in (upper.bottom, lower.top):
            d.mark(x, y, "square", colour=colour, size=4)
        middle = (lower.top + upper.bottom) / 2
        d.text(x + 9, upper.bottom + 15, _cut(above.interface, room), size=TEXT_SIZE)
        d.text(x + 9, lower.top - 15, _cut(below.interface, room), size=TEXT_SIZE)
        texts = [text for text in (_words(name, lane.link), cable.network) if text]
        for n, text in enumerate(texts):
            y = middle + (n - (len(texts) - 1) / 2) * 16
            d.text(x + 9, y, _cut(text, room), size=TEXT_SIZE, colour=colour if n == 0 else QUIET, bold=n == 0)


def _box_at(boxes: Sequence[_Box], host: str, x: float) -> _Box:
    return next(box for box in boxes if box.host.name == host and box.left <= x <= box.right)


def _draw_buses(d: SvgDrawing, buses: Sequence[MapLink], boxes: Sequence[_Box]) -> float:
    """Draw each segment as an upright line to the left of the boxes, and a line to each port. Returns the leftmost position."""
    taken: dict[str, int] = {}
    taps = _tap_numbers(buses)
    for n, bus in enumerate(buses):
        x, colour, ys = -TAP - n * BUS_APART, series_colour(n), list[float]()
        for port in bus.segment:
            box = next(b for b in boxes if b.host.name == port.host)
            taken[port.host] = taken.get(port.host, 0) + 1
            y = box.top + (box.bottom - box.top) * taken[port.host] / (taps[port.host] + 1)
            ys.append(y)
            d.line(x, y, box.left, y, colour=colour, width=2.25)
            d.mark(box.left, y, "square", colour=colour, size=4)
            d.text(box.left - 8, y - 10, _cut(port.interface, TAP - 12), size=TEXT_SIZE, anchor="end", halo=True)
        head = -9.0 - ROW_HEIGHT * n
        d.line(x, head + 7, x, max(ys), colour=colour, width=4)
        words = _cut(" · ".join((f"{bus.name}, a segment", *bus.words)), TAP + LEAST_WIDTH)
        d.text(x - 4, head - 3, words, size=TEXT_SIZE, colour=colour, bold=True)
    return -TAP - max(0, len(buses) - 1) * BUS_APART - 4 if buses else 0.0


def _tap_numbers(buses: Sequence[MapLink]) -> Mapping[str, int]:
    out: dict[str, int] = {}
    for bus in buses:
        for port in bus.segment:
            out[port.host] = out.get(port.host, 0) + 1
    return out

"""Inline device that is a process: takes frames from one port and sends them out of the other, both ways, through packet sockets.

    inline.py PORT PORT PIDFILE [FRAMES]

It stands for a Suricata or Snort in inline mode. While it runs, frames pass; when it is killed, nothing carries them. On SIGUSR1 it drops
the next FRAMES frames and then goes on. It writes its process number into PIDFILE when it forwards.
"""

import os
import selectors
import signal
import socket
import struct
import sys
from pathlib import Path

ALL, OUTGOING, PACKET, ADD_MEMBERSHIP, PROMISCUOUS = 3, 4, 263, 1, 1  # linux/if_ether.h, linux/if_packet.h
BUFFER_FORCED = 33  # SO_RCVBUFFORCE of asm-generic/socket.h: beyond what rmem_max allows


def opened(port: str) -> socket.socket:
    """Return a socket that gets every frame of the port, whoever it is for."""
    taken = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    taken.setsockopt(socket.SOL_SOCKET, BUFFER_FORCED, 1 << 24)
    taken.bind((port, 0))
    taken.setsockopt(PACKET, ADD_MEMBERSHIP, struct.pack("iHH8s", socket.if_nametoindex(port), PROMISCUOUS, 0, b""))
    return taken


def main(near: str, far: str, pidfile: str, frames: str = "0") -> None:
    """Carry frames until it is killed."""
    to_drop = list[None]()
    signal.signal(signal.SIGUSR1, lambda *_: to_drop.extend([None] * int(frames)))
    here, there = opened(near), opened(far)
    waiting = selectors.DefaultSelector()
    waiting.register(here, selectors.EVENT_READ, there)
    waiting.register(there, selectors.EVENT_READ, here)
    Path(pidfile).write_text(str(os.getpid()), encoding="ascii")
    while True:
        for key, _ in waiting.select():
            frame, (_, _, kind, *_) = key.fileobj.recvfrom(65536)
            if kind == OUTGOING:
                continue
            if to_drop:
                to_drop.pop()
                continue
            key.data.send(frame)


main(*sys.argv[1:])

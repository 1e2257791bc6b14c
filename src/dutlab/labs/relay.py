"""Program for ssh's ProxyCommand: copies bytes between stdin, stdout and one TCP connection.

Usage: `relay.py ADDRESS PORT`. It runs by its file name, so it cannot import dutlab.
"""

import os
import selectors
import socket
import sys

CONNECT_S = 10
CHUNK_BYTES = 65536


def carry(far: socket.socket) -> None:
    """Copy bytes in both directions until either side ends."""
    ready = selectors.DefaultSelector()
    ready.register(0, selectors.EVENT_READ)
    ready.register(far, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.fd == 0:
                if not (data := os.read(0, CHUNK_BYTES)):
                    return
                far.sendall(data)
            else:
                if not (data := far.recv(CHUNK_BYTES)):
                    return
                while data:
                    data = data[os.write(1, data) :]


if __name__ == "__main__":
    try:
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=CONNECT_S) as connected:
            connected.settimeout(None)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            carry(connected)
    except OSError:  # ssh reports the lost connection itself; any output of ours would look like the server's
        sys.exit(1)

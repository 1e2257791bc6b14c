"""For ssh's ProxyCommand: carries bytes between stdin and stdout and one TCP connection.

`relay.py ADDRESS PORT`; run by its file's name, so it imports nothing of ours.
"""

import os
import selectors
import socket
import sys

CONNECT_S = 10
CHUNK_BYTES = 65536


def carry(far: socket.socket) -> None:
    """Until either side ends."""
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
    except OSError:  # ssh says that the connection was lost; a word of ours would be taken for the server's
        sys.exit(1)

"""Threads that serve the ports of a network namespace, from the kernel's netlink family `netdev`.

Messages: Documentation/netlink/specs/netdev.yaml (`napi-get`) and include/uapi/linux/netdev.h, genetlink.h. Linux 6.8 and newer.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET, linux/sched.h
_GENERIC = 16  # NETLINK_GENERIC, linux/netlink.h
_REQUEST, _DUMP = 0x1, 0x300  # NLM_F_REQUEST, NLM_F_DUMP
_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_CONTROLLER, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2  # GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_*
_NAPI_GET, _NAPI_PID = 11, 4  # NETDEV_CMD_NAPI_GET, NETDEV_A_NAPI_PID
_HEADER, _GENERIC_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBH"), struct.Struct("=HH")
_ANSWER_WITHIN_S = 5.0


def napi_pids(namespace: Path) -> frozenset[int] | None:
    """Return the PIDs, in the machine's initial PID namespace, of the threads that serve the namespace's ports.

    None when the kernel lacks the family, or the namespace cannot be entered.
    """
    pid_sets: list[frozenset[int]] = []

    def ask() -> None:  # in a separate thread, because a thread remains in a namespace
        try:
            fd = os.open(namespace, os.O_RDONLY)
            try:
                if ctypes.CDLL(None).setns(fd, _NEW_NETWORK) != 0:
                    return
            finally:
                os.close(fd)
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _GENERIC) as s:
                s.settimeout(_ANSWER_WITHIN_S)
                s.bind((0, 0))
                pid_sets.append(_pids(s))
        except OSError:
            return

    thread = threading.Thread(target=ask, name="napi-get")
    thread.start()
    thread.join()
    return pid_sets[0] if pid_sets else None


def _pids(s: socket.socket) -> frozenset[int]:
    """Return the PIDs that the kernel lists. Raises OSError when it lacks the family or command."""
    name = b"netdev\0"
    padded = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(name), _FAMILY_NAME) + name.ljust(8, b"\0")
    family = next((number for attributes in _asked(s, _CONTROLLER, _GET_FAMILY, 0, padded) for number in _of(attributes, _FAMILY_ID)), None)
    if family is None:
        raise OSError("no netlink family netdev")
    return frozenset(pid for attributes in _asked(s, family, _NAPI_GET, _DUMP, b"") for pid in _of(attributes, _NAPI_PID))


def _asked(s: socket.socket, family: int, command: int, flags: int, payload: bytes) -> Iterator[bytes]:
    """Yield the attributes of each message of the answer. Raises OSError."""
    body = _GENERIC_HEADER.pack(command, 1, 0) + payload
    s.send(_HEADER.pack(_HEADER.size + len(body), family, _REQUEST | flags, 1, 0) + body)
    while True:
        data = s.recv(1 << 16)
        while data:
            length, kind, _, _, _ = _HEADER.unpack_from(data)
            message, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
            if kind == _ERROR:
                (number,) = struct.unpack_from("=i", message)
                raise OSError(-number, os.strerror(-number))
            if kind == _DONE:
                return
            yield message[_GENERIC_HEADER.size :]
        if not flags:
            return


def _of(attributes: bytes, wanted: int) -> Iterator[int]:
    """Yield the values of an attribute that is an unsigned integer of two or four bytes."""
    while len(attributes) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == wanted:
            yield int.from_bytes(attributes[_ATTRIBUTE.size : length], sys.byteorder)
        attributes = attributes[(max(length, _ATTRIBUTE.size) + 3) & ~3 :]

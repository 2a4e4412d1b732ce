# SPDX-License-Identifier: Apache-2.0
"""One process of a node wakes another one up, to look again.

A Unix datagram socket; the datagram's content does not matter. A notification
that nobody waits for is lost without harm, each process looks by itself as
well.
"""

import collections.abc
import contextlib
import os
import socket
import threading


def notify(path: str) -> None:
    """Wake whoever listens there, if anybody does. Never blocks."""
    with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b'!', path)


def bind(path: str) -> socket.socket:
    """A socket that becomes readable when somebody notifies this path.

    A socket file that a killed process left behind is replaced.

    :raises OSError: there cannot be a socket.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        receiver.bind(path)
    except OSError:
        receiver.close()
        raise
    return receiver


def drain(receiver: socket.socket) -> bool:
    """Take all notifications. Returns whether there was one."""
    notified = False
    with contextlib.suppress(BlockingIOError):
        while receiver.recv(16, socket.MSG_DONTWAIT):
            notified = True
    return notified


def listen(path: str, notified: collections.abc.Callable[[], object]
           ) -> None:
    """Call ``notified()`` for each notification, in a thread of its own.

    :raises OSError: there cannot be a socket.
    """
    receiver = bind(path)

    def loop() -> None:
        while True:
            receiver.recv(16)
            notified()

    threading.Thread(target=loop, name='wakeup', daemon=True).start()

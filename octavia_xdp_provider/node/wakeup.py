# SPDX-License-Identifier: Apache-2.0
"""Notifications between processes of a node, to look for work.

They use Unix datagram sockets; the content does not matter. A notification
may be lost without harm, because each process also looks at intervals.
"""

import collections.abc
import contextlib
import os
import socket
import threading


def notify(path: str) -> None:
    """Wake the process that listens on this path, if any. Never blocks."""
    with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b'!', path)


def bind(path: str) -> socket.socket:
    """Return a socket that becomes readable on notifications of this path.

    The socket file of a killed process is replaced.

    :raises OSError: the socket cannot be created.
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
    """Consume all notifications; return whether there was one."""
    notified = False
    with contextlib.suppress(BlockingIOError):
        while receiver.recv(16, socket.MSG_DONTWAIT):
            notified = True
    return notified


def listen(path: str, notified: collections.abc.Callable[[], object]
           ) -> None:
    """Call ``notified()`` for each notification, in a thread of its own.

    :raises OSError: the socket cannot be created.
    """
    receiver = bind(path)

    def loop() -> None:
        while True:
            receiver.recv(16)
            notified()

    threading.Thread(target=loop, name='wakeup', daemon=True).start()

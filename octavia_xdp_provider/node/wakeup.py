# SPDX-License-Identifier: Apache-2.0
"""A bell between two processes of a node: wake up and look again.

A Unix datagram socket; the datagram's content does not matter. A bell that
nobody hears is lost without harm, the listener looks by itself as well.
"""

import contextlib
import os
import socket
import threading


def ring(path):
    """Wake the listener, if there is one. Never blocks."""
    with contextlib.suppress(OSError), socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(b'!', path)


def hang(path):
    """A socket that becomes readable when somebody rings.

    A socket file that a killed process left behind is replaced.
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


def drain(receiver):
    """Take all rings there are. Returns whether there was one."""
    rung = False
    with contextlib.suppress(BlockingIOError):
        while receiver.recv(16, socket.MSG_DONTWAIT):
            rung = True
    return rung


def listen(path, heard):
    """Call ``heard()`` for each ring, in a thread of its own."""
    receiver = hang(path)

    def loop():
        while True:
            receiver.recv(16)
            heard()

    threading.Thread(target=loop, name='bell', daemon=True).start()

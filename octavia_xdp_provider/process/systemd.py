# SPDX-License-Identifier: Apache-2.0
"""Notifications of a process to systemd: ready, alive, stopping.

The protocol is a datagram of text to a Unix socket, sd_notify(3).
oslo.service supports READY=1 only, and libsystemd's binding needs a compiler.
"""

from collections.abc import Iterable
from collections.abc import MutableMapping
import os
import socket

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_FIRST_DESCRIPTOR = 3


class Systemd:
    """The service manager that has started this process, if any.

    Its variables are removed from the environment, so that children do not
    inherit them. Variables for another process, such as those of
    octavia-driver-agent in a controller that it has started, are ignored.

    :ivar watchdog_s: longest interval in seconds between two calls of
        ``alive``; None: there is no watchdog.
    :ivar stored: (name, descriptor) of what an earlier process has stored.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None
                 ) -> None:
        environment = os.environ if environment is None else environment
        address, limit, pid = (environment.pop(name, None) for name in (
            'NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'))
        count, receiver, names = (environment.pop(name, '') for name in (
            'LISTEN_FDS', 'LISTEN_PID', 'LISTEN_FDNAMES'))
        self.stored = (
            list(zip(names.split(':'), range(
                _FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count)),
                strict=False))
            if receiver == str(os.getpid()) and count.isdecimal() else [])
        is_own = pid in (None, str(os.getpid()))
        self._address = address if is_own else None
        self.watchdog_s = (int(limit) / 1e6 if limit and limit.isdecimal()
                           and is_own and address else None)

    def ready(self) -> None:
        """Report that the process serves."""
        self._send('READY=1')

    def alive(self) -> None:
        """Report that the process is alive."""
        self._send('WATCHDOG=1')

    def stopping(self) -> None:
        """Report that the process is ending."""
        self._send('STOPPING=1')

    def status(self, text: str) -> None:
        """Set the status line of ``systemctl status``."""
        self._send(f'STATUS={text}')

    def store(self, name: str, descriptor: int) -> None:
        """Have a copy of a descriptor kept for the next process, which finds
        it in ``stored``. The unit needs FileDescriptorStoreMax."""
        self._send(f'FDSTORE=1\nFDPOLL=0\nFDNAME={name}', [descriptor])

    def forget(self, name: str) -> None:
        """Have the copies of this name closed."""
        self._send(f'FDSTOREREMOVE=1\nFDNAME={name}')

    def _send(self, text: str, descriptors: Iterable[int] = ()) -> None:
        if not self._address:
            return
        address = self._address
        if address.startswith('@'):
            address = f'\0{address[1:]}'
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.connect(address)
                socket.send_fds(sender, [text.encode()], list(descriptors))
        except OSError as error:
            LOG.warning('Cannot send %s to systemd: %s', text, error)

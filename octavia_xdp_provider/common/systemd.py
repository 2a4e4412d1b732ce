# SPDX-License-Identifier: Apache-2.0
"""What a process sends systemd: that it serves, that it lives, that it ends.

The protocol is a datagram of text to a Unix socket, sd_notify(3).
oslo.service has READY=1 alone, and libsystemd's binding needs a compiler.
"""

from collections.abc import MutableMapping
import os
import socket

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Systemd:
    """The service manager that has started this process, if one has.

    What it put into the environment is taken out: it is not for children.
    Variables that are for another process, such as those of
    octavia-driver-agent in a controller that it has started, are not obeyed.

    :ivar watchdog_s: seconds within which ``alive`` must be called, again and
        again; None: there is no watchdog.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None
                 ) -> None:
        environment = os.environ if environment is None else environment
        address, limit, pid = (environment.pop(name, None) for name in (
            'NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID'))
        is_mine = pid in (None, str(os.getpid()))
        self._address = address if is_mine else None
        self.watchdog_s = (int(limit) / 1e6 if limit and limit.isdecimal()
                           and is_mine and address else None)

    def ready(self) -> None:
        """The process serves."""
        self._send('READY=1')

    def alive(self) -> None:
        """Whatever must go on goes on."""
        self._send('WATCHDOG=1')

    def stopping(self) -> None:
        """The process has been asked to end, and does."""
        self._send('STOPPING=1')

    def status(self, text: str) -> None:
        """A line for ``systemctl status``."""
        self._send(f'STATUS={text}')

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = self._address
        if address.startswith('@'):
            address = f'\0{address[1:]}'
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.connect(address)
                sender.send(text.encode())
        except OSError as error:
            LOG.warning('systemd cannot be sent %s: %s', text, error)

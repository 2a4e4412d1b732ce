# SPDX-License-Identifier: Apache-2.0
"""The thread that follows taps of ports and the hypervisor's own links.

It waits for events of Open vSwitch's database and of the kernel's links. As
events may be lost, it also polls; each poll reads everything.
"""

import os
import select
import threading
import typing

from oslo_log import log as logging
from ovs import poller as ovs_poller

from octavia_xdp_provider.host import links as links_module
from octavia_xdp_provider.host import ovsdb
from octavia_xdp_provider.host import taps as taps_module

LOG = logging.getLogger(__name__)

# Seconds between two polls without an event.
LOOK_S = 10.0
# Seconds to wait after a failure.
RETRY_S = 1.0


class Watch:
    """Runs from ``start`` until ``stop``.

    :param remote: address of Open vSwitch's database.
    :param interfaces: names of the hypervisor's own interfaces. A changed MTU
        must reach LB nodes before they send packets that are too long.
    :param port_ids: returns the ids of wanted ports, which are looked up by
        name until Open vSwitch's database has answered.
    :param changed: called when taps or the own interfaces have changed.
    :param come_round: see Loops.watch.
    :ivar taps: Tap by port id; None before the first poll. Replaced, never
        modified.
    :ivar is_known: whether Open vSwitch's database has answered.
    """

    def __init__(self, remote: str, interfaces: typing.Iterable[str],
                 port_ids: typing.Callable[[], typing.Iterable[str]],
                 changed: typing.Callable[[], None],
                 come_round: typing.Callable[[], None] = lambda: None
                 ) -> None:
        self._remote = remote
        self._interfaces = frozenset(interfaces)
        self._own: dict[str, links_module.Link | None] = {}
        self._port_ids = port_ids
        self._changed = changed
        self._come_round = come_round
        self._stop = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name='taps')
        self._failing = False
        self.taps: taps_module.Taps | None = None
        self.is_known = False

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Poll now; thread-safe."""
        os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._stop.set()
        self.wake()
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except Exception:
                if not self._failing:
                    LOG.exception('Taps cannot be followed; trying again.')
                self._failing = True
                self._stop.wait(RETRY_S)

    def _follow(self) -> None:
        links = links_module.Links()
        database = ovsdb.Database(self._remote)
        try:
            events = links.watch()
            while not self._stop.is_set():
                self._come_round()
                database.run()
                self._look(links, database)
                if self._failing:
                    LOG.info('Taps are followed again.')
                    self._failing = False
                poller = ovs_poller.Poller()
                database.wait(poller)
                for descriptor in events, self._wake:
                    poller.fd_wait(descriptor, ovs_poller.POLLIN)
                poller.timer_wait(int(LOOK_S * 1000))
                poller.block()
                if _is_readable(self._wake):
                    os.eventfd_read(self._wake)
                links.drain(lambda: _is_readable(events))
        finally:
            database.close()
            links.close()

    def _look(self, links: links_module.Links, database: ovsdb.Database
              ) -> None:
        present = links.links()
        own = {name: present.get(name) for name in self._interfaces}
        known, taps = database.is_known, self.taps
        if known:
            taps = taps_module.find(database.interfaces(), present)
        elif self.is_known:
            known = True  # a new connection; keep the taps of the last one
        else:
            taps = taps_module.guess(present, self._port_ids())
        if (taps, known, own) != (self.taps, self.is_known, self._own):
            self.taps, self.is_known, self._own = taps, known, own
            self._changed()


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))

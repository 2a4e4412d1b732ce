# SPDX-License-Identifier: Apache-2.0
"""Flows of ports that move from one hypervisor to another.

Only the hypervisor that has seen a client knows to which listener an answer
belongs, or that it is the VM's own. So it sends what it knows when the tap has
gone, and the other one takes it; for about a minute that one holds back what
the VM sends of connections that it does not know (*From the VM* in
doc/source/contributor/host-forwarding.rst). A port whose VM has stopped is
sent for nothing: no other hypervisor has it, and what is there goes with the
entries.

Nothing is kept: an agent that starts anew sends what is there once more.
"""

import collections.abc
import queue
import time
import typing

from oslo_log import log as logging

from octavia_xdp_provider.common import host_messages
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.library import HostError

LOG = logging.getLogger(__name__)

# Messages of other hypervisors that wait for the worker.
_WAITING_MAX = 64
# A port that no other hypervisor has had for so long has not moved: its VM has
# stopped.
PATIENCE_S = 120.0

Page = list[host_messages.Flow]


class Leaving:
    """What is to be sent of ports whose tap has gone.

    The worker looks, another thread sends.

    :param dataplane: datapath.Datapath, of the worker.
    """

    def __init__(self, dataplane: typing.Any,
                 clock: collections.abc.Callable[[], float] = time.monotonic
                 ) -> None:
        self._datapath = dataplane
        self._clock = clock
        self._pages: dict[str, list[Page]] = {}
        self._seen: dict[str, float] = {}

    def look(self, left: collections.abc.Set[str]) -> None:
        """Read the flows of ports that have lost their tap since the last
        look. Belongs to the worker.

        :param left: ids of ports without a tap.
        :raises HostError: they cannot be read.
        """
        now = self._clock()
        for port_id, since in list(self._seen.items()):
            if port_id not in left:
                del self._seen[port_id]
            elif now - since < PATIENCE_S:
                continue
            self._pages.pop(port_id, None)
        for port_id in left - self._seen.keys():
            pages = list(_pages(self._datapath.port_flows(port_id)))
            self._seen[port_id] = now
            if pages:
                self._pages[port_id] = pages

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to be sent."""
        return bool(self._pages)

    def send(self, controller: typing.Any, host: str) -> None:
        """:param controller: host_rpc.HostsClient.

        :raises TRANSPORT_ERRORS: it does not answer (common/rpc.py).
        """
        for port_id, pages in list(self._pages.items()):
            if all(controller.flows(host, port_id, page) for page in pages):
                LOG.info('Port %s has left: %s of its flows were sent after '
                         'it.', port_id, sum(map(len, pages)))
                self._pages.pop(port_id, None)


def _pages(flows: collections.abc.Iterable[types.Flow]
           ) -> collections.abc.Iterator[Page]:
    """Those that were used last, if they are too many."""
    known = sorted(flows, key=lambda one: one.idle)
    if len(known) > host_messages.FLOWS_MAX:
        LOG.warning('A port has left with %s flows; the %s that were used '
                    'last are sent after it.', len(known),
                    host_messages.FLOWS_MAX)
    page: Page = []
    for one in known[:host_messages.FLOWS_MAX]:
        page.append({'key': one.key, 'client': one.client,
                     'port': one.client_port, 'closing': one.closing})
        if len(page) == host_messages.FLOWS_PAGE:
            yield page
            page = []
    if page:
        yield page


class Arriving:
    """What other hypervisors have sent, for the worker.

    :param dataplane: datapath.Datapath, of the worker.
    :param wake: called when there is something.
    """

    def __init__(self, dataplane: typing.Any,
                 wake: collections.abc.Callable[[], None]) -> None:
        self._datapath = dataplane
        self._wake = wake
        self._waiting: queue.Queue[tuple[str, Page]] = queue.Queue(
            _WAITING_MAX)

    def put(self, port_id: str, page: Page) -> None:
        """Take a message, which has been checked; any thread may. What is too
        much is left out."""
        try:
            self._waiting.put_nowait((port_id, page))
        except queue.Full:
            LOG.warning('More flows of ports that have come are sent than can '
                        'be taken.')
            return
        self._wake()

    def take(self) -> None:
        """Put all of it into the datapath. Belongs to the worker."""
        while True:
            try:
                port_id, page = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                own = {one.entry.key for one in self._datapath.entries()
                       if one.entry.port_id == port_id}
                added = self._datapath.add_flows([
                    types.KnownFlow(one['key'], one['client'], one['port'],
                                    one['closing'])
                    for one in page if one['key'] in own])
            except HostError as error:
                LOG.error('Flows of port %s that were known elsewhere cannot '
                          'be taken: %s', port_id, error)
            else:
                LOG.info('Port %s has come with %s flows; %s were not known '
                         'here.', port_id, len(page), added)

# SPDX-License-Identifier: Apache-2.0
"""Flows of ports that move from one hypervisor to another.

Only the hypervisor that has seen a client's packets can tell to which listener
an answer belongs, or that the VM itself opened the connection. So the old
hypervisor sends its flows when the tap has gone, and the new one adds them;
for about a minute it holds back packets of the VM that match no flow (*From
the VM* in doc/source/contributor/host-forwarding.rst). If the VM has merely
stopped, no hypervisor takes the flows, and they go with the entries.

Nothing is persisted: a restarted agent sends the remaining flows again.
"""

import collections.abc
import queue
import time
import typing

from oslo_log import log as logging

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.library import HostError

LOG = logging.getLogger(__name__)

# Messages of other hypervisors that may wait for the worker.
_WAITING_MAX = 64
# If no hypervisor has taken a port's flows for this long, its VM has stopped
# rather than moved.
PATIENCE_S = 120.0

Page = list[host_messages.Flow]


class Leaving:
    """Flows to be sent of ports whose tap has gone.

    The worker reads them, another thread sends them.

    :param dataplane: datapath.Datapath of the worker.
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
        call. Called by the worker alone.

        :param left: ids of ports without a tap.
        :raises HostError: the flows cannot be read.
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
        """Whether there are flows to send."""
        return bool(self._pages)

    def send(self, controller: typing.Any, host: str) -> None:
        """:param controller: host_rpc.HostsClient.

        :raises TRANSPORT_ERRORS: no answer (see contracts/rpc.py).
        """
        for port_id, pages in list(self._pages.items()):
            if all(controller.flows(host, port_id, page) for page in pages):
                LOG.info('Port %s has left: %s of its flows were sent to its '
                         'new hypervisor.', port_id, sum(map(len, pages)))
                self._pages.pop(port_id, None)


def _pages(flows: collections.abc.Iterable[types.Flow]
           ) -> collections.abc.Iterator[Page]:
    """Yield pages of at most FLOWS_MAX flows, the most recently used ones."""
    recent = sorted(flows, key=lambda flow: flow.idle)
    if len(recent) > host_messages.FLOWS_MAX:
        LOG.warning('A port has left with %s flows; only the %s most '
                    'recently used ones are sent.', len(recent),
                    host_messages.FLOWS_MAX)
    page: Page = []
    for flow in recent[:host_messages.FLOWS_MAX]:
        page.append({'key': flow.key, 'client': flow.client,
                     'port': flow.client_port, 'closing': flow.closing})
        if len(page) == host_messages.FLOWS_PAGE:
            yield page
            page = []
    if page:
        yield page


class Arriving:
    """Queue of flows that other hypervisors have sent, for the worker.

    :param dataplane: datapath.Datapath of the worker.
    :param wake: called when flows have been queued.
    :param discarded: called with the number of flows that were not.
    """

    def __init__(self, dataplane: typing.Any,
                 wake: collections.abc.Callable[[], None],
                 discarded: collections.abc.Callable[[int], None] = (
                     lambda flows: None)) -> None:
        self._datapath = dataplane
        self._wake = wake
        self._discarded = discarded
        self._waiting: queue.Queue[tuple[str, Page]] = queue.Queue(
            _WAITING_MAX)

    def put(self, port_id: str, page: Page) -> None:
        """Queue a checked message, or drop it if the queue is full.
        Thread-safe."""
        try:
            self._waiting.put_nowait((port_id, page))
        except queue.Full:
            self._discarded(len(page))
            LOG.warning('Dropping flows that another hypervisor has sent: '
                        'too many are waiting.')
            return
        self._wake()

    def take(self) -> None:
        """Add all queued flows to the datapath; for the worker alone."""
        while True:
            try:
                port_id, page = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                own = {state.entry.key for state in self._datapath.entries()
                       if state.entry.port_id == port_id}
                added = self._datapath.add_flows([
                    types.KnownFlow(flow['key'], flow['client'], flow['port'],
                                    flow['closing'])
                    for flow in page if flow['key'] in own])
            except HostError as error:
                LOG.error('Cannot add flows of port %s from another '
                          'hypervisor: %s', port_id, error)
            else:
                LOG.info('Port %s has arrived with %s flows; %s were new '
                         'here.', port_id, len(page), added)

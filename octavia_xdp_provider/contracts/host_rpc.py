# SPDX-License-Identifier: Apache-2.0
"""The interface between agents of hypervisors and controllers.

============ ============ ===============================================
interface    server       methods
============ ============ ===============================================
hosts        controller   ``fetch(host, since, after)`` → a page of what is
                          different since a generation;
                          ``compare(host, after)`` → a page of generations;
                          ``documents(host, ids)`` → those, or the first of
                          them where they are too many for a message;
                          ``report(host, epoch, seq, report)`` → whether it
                          was taken;
                          ``flows(host, port, flows)`` → whether another
                          hypervisor has the port, to which they go
host-wakeup  each host    ``changed()``, a cast without content: fetch now;
                          ``flows(port, flows)``, a cast: connections that
                          began elsewhere
============ ============ ===============================================

Both have version 1.0, the first one. They work like those of LB nodes
(contracts/rpc.py and ``doc/source/reference/node-protocol.rst``): the wanted
state is fetched by generation, the actual state is sent in numbered reports,
and lost, delayed or duplicated messages do no harm.

* ``host`` is Neutron's name of the hypervisor (binding:host_id). Each
  hypervisor has a virtual host and a user of its own on the broker, and a
  call in the name of another one is refused.
* A fetch is also the sign of life: a working agent fetches at least every
  FETCH_S seconds, and when it is notified.
* Generations are of one sequence with those of LB nodes' documents: they
  grow, with gaps. Fetch from ``as_of`` 0 after a start, then compare once;
  compare again every few minutes, and when an answer says so. An answer that
  says ``compare`` removes nothing by itself.
* An agent reports what it has *processed*, with or without an error, once it
  is in the datapath: controllers send LB nodes a tunnel when its entry was
  reported without an error. An entry is removed from the hypervisor only
  after the LB nodes have stopped using it; the agent then deletes it as soon
  as it is ``removed``.
* If the tap of a port has gone, and a port of a member there has several
  listeners, its agent sends the flows of these until it is answered that
  another hypervisor has the port, or until no flow is left. The new
  hypervisor cannot tell otherwise which listener a flow belongs to. The
  controller translates keys, and forwards only flows with keys of the sender;
  it stores nothing.
* The hypervisor's state outlives its agent: nothing but a fetch or a complete
  comparison removes anything.
"""

from typing import Any
from typing import cast

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import queue_names
from octavia_xdp_provider.contracts import rpc

CONTROLLER_TOPIC = 'octavia-xdp-controller-hosts'
HOST_TOPIC = queue_names.HOST_TOPIC

HOSTS_NAMESPACE = 'hosts'
WAKEUP_NAMESPACE = 'host-wakeup'
VERSION = '1.0'

# Longest time between two fetches of an agent, in seconds.
FETCH_S = 10.0


class HostsClient:
    """An agent's calls to the controller.

    Each raises rpc.TRANSPORT_ERRORS if there is no answer in time.
    """

    def __init__(self, rpc_transport: rpc.Transport, timeout: float = 10
                 ) -> None:
        self._client = rpc.client(
            rpc_transport, CONTROLLER_TOPIC, HOSTS_NAMESPACE,
            VERSION).prepare(timeout=timeout)

    def _call(self, method: str, **arguments: Any) -> Any:
        return self._client.call({}, method, **arguments)

    def fetch(self, host: str, since: int, after: str | None = None
              ) -> host_messages.FetchAnswer:
        """:param since: the ``as_of`` of the last fetch; 0 if there is none.

        :param after: the ``more`` of the previous page.
        """
        return cast(host_messages.FetchAnswer, self._call(
            'fetch', host=host, since=since, after=after))

    def compare(self, host: str, after: str | None = None
                ) -> host_messages.CompareAnswer:
        return cast(host_messages.CompareAnswer, self._call(
            'compare', host=host, after=after))

    def documents(self, host: str, ids: list[str]
                  ) -> list[host_messages.Entry]:
        return cast(list[host_messages.Entry], self._call(
            'documents', host=host, ids=ids))

    def report(self, host: str, epoch: int, seq: int,
               report: host_messages.Report) -> host_messages.ReportAnswer:
        """:param epoch: above all earlier ones, such as a time in
            milliseconds; a new one begins with seq 1 and the complete state.
        """
        return cast(host_messages.ReportAnswer, self._call(
            'report', host=host, epoch=epoch, seq=seq, report=report))

    def flows(self, host: str, port: str,
              flows: list[host_messages.Flow]) -> bool:
        """:param port: id of the Neutron port."""
        return bool(self._call('flows', host=host, port=port, flows=flows))


class WakeupClient:
    """Wakes agents up. A lost notification does no harm: agents also fetch
    periodically."""

    def __init__(self, rpc_transport: rpc.Transport) -> None:
        self._client = rpc.client(rpc_transport, HOST_TOPIC, WAKEUP_NAMESPACE,
                                  VERSION)

    def notify(self, host: str) -> None:
        self._client.prepare(server=host).cast({}, 'changed')

    def flows(self, host: str, port: str,
              flows: list[host_messages.Flow]) -> None:
        """Send flows; a lost one is restored by the client's next packet."""
        self._client.prepare(server=host).cast(
            {}, 'flows', port=port, flows=flows)

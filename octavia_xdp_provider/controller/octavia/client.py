# SPDX-License-Identifier: Apache-2.0
"""All that the controller asks of Octavia and sends it.

octavia-driver-agent starts a process for each call, which takes a third of a
second of CPU before it looks at the message, unless it sets statuses by the
preloaded listener (preloaded_listeners.py); a request of Octavia's API takes
a tenth of that. So what both can show the API is asked for, and ``document``
is for what only octavia-driver-agent has, all fields of a load balancer.
Messages of callers that wait at the same time share a call.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.common import translate
from octavia_xdp_provider.controller.octavia import api
from octavia_xdp_provider.controller.octavia import driver_agent
from octavia_xdp_provider.controller.octavia import limited
from octavia_xdp_provider.controller.octavia import sender

Record = dict[str, Any]


class Octavia:
    """Octavia. Any thread may use it.

    All calls end within a bounded time, those of a deletion within
    minutes, and raise OctaviaUnavailable.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigurationError: no credentials for Octavia's API."""
        self._api = api.Api(conf)
        self._agent = driver_agent.DriverAgent(conf)
        self._sender = sender.Sender(
            self._agent.set_statuses,
            conf.controller.driver_agent_connections,
            conf.controller.driver_agent_timeout)
        self._documents = limited.Limited(
            'octavia-driver-agent', conf.controller.driver_agent_connections,
            conf.controller.driver_agent_timeout)
        # One at a time: old figures must not come after new ones.
        self._statistics = limited.Limited(
            'octavia-driver-agent\'s statistics', 1,
            conf.controller.driver_agent_timeout)

    def stop(self) -> None:
        """The process ends: nobody waits long any more."""
        self._sender.stop()

    def document(self, load_balancer_id: str) -> spec.Document | None:
        """The load balancer as Octavia has committed it, or None.

        :raises Refused: it is nothing that could be wanted here.
        """
        found = self._documents.call(self._agent.load_balancer,
                                     load_balancer_id)
        if found is None:
            return None
        return spec.document(load_balancer_id,
                             translate.load_balancer_tree(found))

    def tree(self, load_balancer_id: str) -> api.Tree | None:
        """Provisioning statuses that Octavia has committed, or None.

        :returns: (kind, id) → status, of each object.
        """
        return self._api.tree(load_balancer_id)

    def listed(self) -> Iterator[api.Listed]:
        """All load balancers of this provider that are not deleted.

        :raises OctaviaUnavailable: not all could be listed; also a user who
            may not see those of all projects is refused.
        """
        return self._api.listed()

    def provisioning_status(self, load_balancer_id: str) -> str | None:
        """What Octavia has committed, None: it is not there.

        Octavia's driver is called inside a transaction that makes the load
        balancer PENDING_*, and only the controller ends that. So as soon as
        it is seen here the transaction is committed; one that was rolled
        back is never seen.
        """
        return self._api.provisioning_status(load_balancer_id)

    def set_statuses(self, message: sender.Message) -> None:
        """Set statuses; returns when all of them are set.

        :param message: of one load balancer, see status.message().
            Callers at the same time share a call.
        :raises Rejected: Octavia could not set one of them.
        """
        self._sender.send(message)

    def set_statistics(self, listeners: Iterable[Record]) -> None:
        """Set statistics of listeners.

        :param listeners: records of octavia-lib, with all their fields; no
            more than fit a socket's buffer.
        :raises Rejected: Octavia could not set one of them, or none.
        """
        self._statistics.call(self._agent.set_statistics, list(listeners))

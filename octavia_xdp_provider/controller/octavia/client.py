# SPDX-License-Identifier: Apache-2.0
"""The interface to Octavia for the rest of the controller.

octavia-driver-agent starts a process for each call, which takes a third of a
second of CPU before it reads the message, except for statuses that go to the
preloaded listener (preloaded_listeners.py). A request to Octavia's API takes a
tenth of that. So the API is used wherever it offers the data, and
``document`` is for data that only octavia-driver-agent has: all fields of a
load balancer. Messages of concurrent callers share a call.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from octavia_xdp_provider.api import translate
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller.octavia import api
from octavia_xdp_provider.controller.octavia import driver_agent
from octavia_xdp_provider.controller.octavia import limited
from octavia_xdp_provider.controller.octavia import sender

Record = dict[str, Any]


class Octavia:
    """A client of Octavia. Thread-safe.

    All calls return in bounded time, deletions within minutes, and raise
    OctaviaUnavailable.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigurationError: Octavia's API has no credentials."""
        self._api = api.Api(conf)
        self._agent = driver_agent.DriverAgent(conf)
        self._sender = sender.Sender(
            self._agent.set_statuses,
            conf.controller.driver_agent_connections,
            conf.controller.driver_agent_timeout)
        self._documents = limited.Limited(
            'octavia-driver-agent', conf.controller.driver_agent_connections,
            conf.controller.driver_agent_timeout)
        # One at a time: old figures must not overtake new ones.
        self._statistics = limited.Limited(
            'octavia-driver-agent\'s statistics', 1,
            conf.controller.driver_agent_timeout)

    def stop(self) -> None:
        """Shorten the time for which callers wait, as the process ends."""
        self._sender.stop()

    def document(self, load_balancer_id: str) -> spec.Document | None:
        """Return the load balancer that Octavia has committed, or None.

        :raises Refused: it breaks the rules of this provider.
        """
        balancer = self._documents.call(self._agent.load_balancer,
                                        load_balancer_id)
        if balancer is None:
            return None
        return spec.document(load_balancer_id,
                             translate.load_balancer_tree(balancer))

    def tree(self, load_balancer_id: str) -> api.Tree | None:
        """Return the provisioning statuses that Octavia has committed.

        :returns: (kind, id) → status of each object, or None if there is no
            such load balancer.
        """
        return self._api.tree(load_balancer_id)

    def listed(self) -> Iterator[api.Listed]:
        """Yield all load balancers of this provider that are not deleted.

        :raises OctaviaUnavailable: not all could be listed, for example
            because the user may not see those of all projects.
        """
        return self._api.listed()

    def provisioning_status(self, load_balancer_id: str) -> str | None:
        """Return a load balancer's committed status, or None if it is not
        there.

        Octavia calls the driver inside a transaction that makes the load
        balancer PENDING_*, and only the controller ends that status. So a
        PENDING_* status here means that the transaction was committed, and
        after a rollback it is never seen.
        """
        return self._api.provisioning_status(load_balancer_id)

    def set_statuses(self, message: sender.Message) -> None:
        """Set statuses, and return when all of them are set.

        :param message: records of one load balancer, see
            status_message.message(). Concurrent callers share a call.
        :raises Rejected: Octavia could not set one of them.
        """
        self._sender.send(message)

    def set_statistics(self, listeners: Iterable[Record]) -> None:
        """Set statistics of listeners.

        :param listeners: octavia-lib's records with all their fields, which
            must fit a socket's buffer.
        :raises Rejected: Octavia could not set one or all of them.
        """
        self._statistics.call(self._agent.set_statistics, list(listeners))

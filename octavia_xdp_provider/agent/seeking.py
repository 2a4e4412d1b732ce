# SPDX-License-Identifier: Apache-2.0
"""For how long this node asks its peers for unknown UDP flows.

A datagram does not show whether its flow is new, and asking for each new flow
would cost one packet per peer. So the node asks its peers only while flows
are moved on purpose, and afterwards for one idle timeout: a flow that is idle
for longer has ended.

The datapath stores the remaining time, so it survives a restart of the agent.
The agent only ever extends it, since the agent may end at any instant.
"""

from collections.abc import Iterable

from oslo_log import log as logging

from octavia_xdp_provider.api import nat
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)

# Nodes are informed of moves at different times.
MARGIN_S = round(2 * nat.OTHERS_S)
# While flows are moved, the time is extended when it is shorter by this.
SLACK_S = 5


class Seeking:
    """Extends the time in the datapath, in the worker's thread only.

    :param idle_s: least idle timeout of UDP flows to allow for.
    """

    def __init__(self, dataplane: datapath.Datapath, idle_s: int) -> None:
        self._datapath = dataplane
        self._least_idle_s = idle_s
        self._idle_s = idle_s
        self._problem: str | None = None

    def longest(self, idle_times: Iterable[int]) -> None:
        """Allow for the longest of the services' idle timeouts."""
        self._idle_s = max((self._least_idle_s, *idle_times))

    def extend(self) -> None:
        """Ask the peers from now on: their flows may move here.

        :raises DatapathError: another library took over.
        """
        wanted = self._idle_s + MARGIN_S
        problem = None
        try:
            if self._datapath.seeks_udp_s() < wanted - SLACK_S:
                self._datapath.seek_udp(wanted)
        except datapath.DatapathError as error:
            if datapath.is_stale(error):
                raise
            problem = error.text
            if problem != self._problem:
                LOG.error('Peers are not asked for unknown UDP flows, which '
                          'therefore start over: %s', problem)
        self._problem = problem

# SPDX-License-Identifier: Apache-2.0
"""For how long this node asks its peers for UDP flows that it does not know.

A datagram does not say that its flow is under way, and to ask the others for
each flow that begins would cost as many packets as there are nodes. So they
are asked only while flows are moved by plan, and afterwards for as long as a
flow may be silent: one that is silent for longer has ended.

The time is in the datapath, which keeps it from one agent to the next. It is
only ever made longer: what is done here may end at any instant.
"""

from oslo_log import log as logging

from octavia_xdp_provider.common import nat
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)

# Nodes learn at different times that flows are moved.
MARGIN_S = round(2 * nat.OTHERS_S)
# While flows are moved the time is set again when it is less by so much.
SLACK_S = 5


class Seeking:
    """Belongs to the worker's thread.

    :param idle_s: for how long a UDP flow may be silent, of services about
        which nobody says anything else.
    """

    def __init__(self, dataplane, idle_s):
        self._datapath = dataplane
        self._least_idle_s = idle_s
        self._idle_s = idle_s
        self._problem = None

    def longest(self, idle_times):
        """For how long flows of the node's services may be silent."""
        self._idle_s = max((self._least_idle_s, *idle_times))

    def extend(self):
        """Flows of other nodes may come from now on.

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
                LOG.error('UDP flows of other nodes that come here begin '
                          'anew: %s', problem)
        self._problem = problem

# SPDX-License-Identifier: Apache-2.0
"""Listener statistics: what all nodes counted, sent to Octavia."""

from oslo_log import log as logging

from octavia_xdp_provider.controller import octavia as octavia_module

LOG = logging.getLogger(__name__)


class Statistics:
    """Sends Octavia the sums that have changed since the last time.

    Octavia replaces its row of a listener by what it is sent, so that one
    place must add up all nodes. The sums are in the database and never
    fall: neither a node that leaves nor a restart makes them jump.
    """

    def __init__(self, store, octavia):
        self._store = store
        self._octavia = octavia
        self._sent = {}

    def send(self):
        """Send what has changed. What was not accepted is sent later."""
        sums = self._store.statistics()
        changed = {key: value for key, value in sums.items()
                   if self._sent.get(key) != value}
        if not changed:
            return
        try:
            self._octavia.set_statistics(changed)
        except octavia_module.OctaviaUnavailable as error:
            LOG.warning('Listener statistics: %s; trying again.', error)
            return
        self._sent = sums

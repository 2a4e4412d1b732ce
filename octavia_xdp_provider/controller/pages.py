# SPDX-License-Identifier: Apache-2.0
"""What nodes are sent along with the notification that something has changed.

That is the page with which a controller would answer the node's next fetch:
the node need not ask, which costs both as much as the rest of a small change.
Since when things are different is known of what this process has sent the
node before. It is in memory alone, and may be wrong: messages are lost, and
nodes ask other controllers as well. Then a page holds more than is new to the
node, which does no harm, or begins too late, and the node asks.
"""

import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Pages:
    """Any thread may use it."""

    def __init__(self, changes):
        """:param changes: see Deltas.changes."""
        self._changes = changes
        self._lock = threading.Lock()
        self._as_of = {}  # host → of what it was sent last

    def fetched(self, host, as_of):
        """A node has asked.

        :param as_of: of what it has then. None: it takes no pages, or has
            not got all that there is.
        """
        with self._lock:
            if as_of is None:
                self._as_of.pop(host, None)
            else:
                self._as_of[host] = as_of

    def next(self, host):
        """:returns: since when, and what has changed; or None: the node has
        to ask."""
        with self._lock:
            since = self._as_of.get(host)
        if since is None:
            return None
        try:
            page = self._changes(host, since)
        except Exception as error:
            LOG.warning('What has changed on node %s cannot be read, and the '
                        'node is to ask: %s', host, error)
            return None
        # Nothing new: somebody notifies it once more, who waits for it.
        if page['compare'] or page['more'] is not None or (
                page['as_of'] == since):
            return None
        with self._lock:
            if self._as_of.get(host) == since:
                self._as_of[host] = page['as_of']
        return since, page

# SPDX-License-Identifier: Apache-2.0
"""Pages of changes that are sent to nodes along with notifications.

A page is the answer to the node's next fetch, which the node then need not
make; a fetch costs both sides as much as the rest of a small change. A page
begins where the last one that this process sent to the node ended. That is
kept in memory only and may be wrong, as messages are lost and nodes fetch from
other controllers as well. Then a page overlaps with what the node has, which
is harmless, or begins too late, and the node fetches.
"""

from collections.abc import Callable
import threading

from oslo_log import log as logging

from octavia_xdp_provider.contracts import messages

LOG = logging.getLogger(__name__)


class Pages:
    """The pages of all nodes. Thread-safe."""

    def __init__(self, changes: Callable[[str, int], messages.FetchAnswer]
                 ) -> None:
        """:param changes: see Deltas.changes."""
        self._changes = changes
        self._lock = threading.Lock()
        # host → generation of what it was sent last
        self._as_of: dict[str, int] = {}

    def fetched(self, host: str, as_of: int | None) -> None:
        """Note that a node has fetched.

        :param as_of: the state that it has then; None if it has to fetch more.
        """
        with self._lock:
            if as_of is None:
                self._as_of.pop(host, None)
            else:
                self._as_of[host] = as_of

    def next(self, host: str) -> tuple[int, messages.FetchAnswer] | None:
        """Return (start, page) for a node, or None if it has to fetch."""
        with self._lock:
            since = self._as_of.get(host)
        if since is None:
            return None
        try:
            page = self._changes(host, since)
        except Exception as error:
            LOG.warning('Failed to read changes of node %s, which has to '
                        'fetch them: %s', host, error)
            return None
        # An empty page means that a waiting caller repeats a notification.
        if page['compare'] or page['more'] is not None or (
                page['as_of'] == since):
            return None
        with self._lock:
            if self._as_of.get(host) == since:
                self._as_of[host] = page['as_of']
        return since, page

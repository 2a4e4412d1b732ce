# SPDX-License-Identifier: Apache-2.0
"""Who is alive, and who only could not be heard.

A node that has not reported is dead only if it could have been heard. After
an outage of the controller or of the broker nobody has reported for a while,
and whoever reports first would seem to be the only node that is left. So
silence counts from the moment at which the controller could hear again.
"""

import threading
import time


class Liveness:
    """Remembers since when this process has been hearing nodes.

    Safe to use from several threads.

    :param gap_s: seconds without a report of any node after which the next
        one is taken for the end of an outage: by then every live node has
        missed several reports.
    """

    def __init__(self, gap_s, clock=time.time):
        self._gap = gap_s
        self._clock = clock
        self._lock = threading.Lock()
        # A controller that has just started has heard nobody yet.
        self._listening_since = self._last_heard = clock()

    def heard(self):
        """Some node has reported."""
        with self._lock:
            now = self._clock()
            if now - self._last_heard > self._gap:
                self._listening_since = now
            self._last_heard = now

    def silence_s(self, node):
        """Seconds for which a node could have been heard and was not."""
        with self._lock:
            return self._clock() - max(node.last_seen, self._listening_since)

# SPDX-License-Identifier: Apache-2.0
"""Who is alive, and who only could not be heard.

A node that has not reported is dead only if it could have been heard. After
an outage of the controllers or of the broker nobody has reported for a while,
and whoever reports first would seem to be the only node that is left. So
silence counts from the moment at which the controllers could hear again.

A controller that has just started, or was stopped, may have come back before
the broker, or before nodes have connected to that again: until somebody is
heard it knows nothing, and what was judged before stands. That has an end, for
nodes may have died in an outage, all of them.

Each controller watches, not only the leader: one that has been watching for a
while and becomes the leader need not begin anew.
"""


class Liveness:
    """Remembers since when the controllers have been hearing nodes.

    Times are the database's. Not safe to use from several threads.

    :param gap_s: seconds in which no node was heard after which the next
        sign of life is taken for the end of an outage: by then every live
        node has missed several.
    :param patience_s: seconds for which nobody is taken for silent where
        nobody was heard yet.
    :ivar hears_nobody: nobody was heard yet, and may be.
    """

    def __init__(self, gap_s, patience_s):
        self._gap = gap_s
        self._patience = patience_s
        self._patient_until = 0.0
        self._since = 0.0
        self.hears_nobody = False
        self._looked = None
        self._newest = 0.0

    def observe(self, now, last_seen):
        """To be called at least once in a while, before silence_s.

        :param last_seen: times at which nodes were heard last.
        """
        # What is to come was seen before the clock was set back.
        newest = max((seen for seen in last_seen if seen <= now),
                     default=0.0)
        # A process that has just started, or that was stopped, does not know
        # since when others have been hearing nodes.
        # Nor is it known where the database's clock was set back.
        blind = self._looked is None or not (
            0 <= now - self._looked <= self._gap)
        if blind:
            self.hears_nobody, self._patient_until = True, now + self._patience
        elif self.hears_nobody:
            # From here on it counts.
            self._since = now
            self.hears_nobody = not (newest > self._newest
                                     or now >= self._patient_until)
        if blind or newest - self._newest > self._gap:
            self._since = now
        self._looked, self._newest = now, newest

    def silence_s(self, now, last_seen):
        """Seconds for which a node could have been heard and was not."""
        if last_seen > now:
            # As the clock was before it was set back.
            last_seen = self._since
        return now - max(last_seen, self._since)

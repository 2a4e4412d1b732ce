# SPDX-License-Identifier: Apache-2.0
"""Tells dead nodes from nodes whose reports could not arrive.

A node that has not reported is dead only if its reports could have arrived.
After an outage of the controllers or of the broker, no report has arrived for
a while, and the first node to report would seem to be the only one alive. So
silence counts from the moment at which reports can arrive again.

A controller that has just started or was suspended may be back before the
broker, or before nodes have reconnected to it: until the first report it
knows nothing, and earlier judgements stand. This ends after a while, as all
nodes may have died in the outage.

Each controller observes reports, not only the leader, so that a new leader
that has observed for a while need not start over.
"""

from collections.abc import Iterable


class Liveness:
    """Tracks since when reports of nodes have been able to arrive.

    Times are the database's. Not thread-safe.

    :param gap_s: after so many seconds without any report, the next report
        marks the end of an outage: every live node has missed several by then.
    :param patience_s: seconds for which no node counts as silent before the
        first report.
    :ivar awaits_first_report: no report has arrived yet, and patience_s are
        not over.
    """

    def __init__(self, gap_s: float, patience_s: float) -> None:
        self._gap_s = gap_s
        self._patience_s = patience_s
        self._patient_until = 0.0
        self._since = 0.0
        self.awaits_first_report = False
        self._observed_at: float | None = None
        self._newest_report = 0.0

    def observe(self, now: float, last_seen: Iterable[float]) -> None:
        """Note the nodes' latest reports; to be called regularly, and before
        silence_s.

        :param last_seen: times of each node's latest report.
        """
        # Ignore times in the future, which precede a clock that was set back.
        newest = max((seen for seen in last_seen if seen <= now),
                     default=0.0)
        # A process that has just started or was suspended does not know since
        # when reports have been arriving, nor does any process after the
        # database's clock was set back.
        blind = self._observed_at is None or not (
            0 <= now - self._observed_at <= self._gap_s)
        if blind:
            self.awaits_first_report = True
            self._patient_until = now + self._patience_s
        elif self.awaits_first_report:
            # Silence counts from now on.
            self._since = now
            self.awaits_first_report = not (newest > self._newest_report
                                            or now >= self._patient_until)
        if blind or newest - self._newest_report > self._gap_s:
            self._since = now
        self._observed_at, self._newest_report = now, newest

    def silence_s(self, now: float, last_seen: float) -> float:
        """Return the seconds for which a node's reports could have arrived
        and did not."""
        if last_seen > now:
            # The clock was set back since.
            last_seen = self._since
        return now - max(last_seen, self._since)

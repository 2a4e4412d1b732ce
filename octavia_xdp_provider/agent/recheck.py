# SPDX-License-Identifier: Apache-2.0
"""Whether a VIP may be announced, on a node that was without an uplink.

While no uplink works the health checker learns nothing. When one works again
it probes all members at once; until it is done the tables say what was true
before. A VIP that was withdrawn meanwhile is announced when no result of its
members' checks is older than that or in doubt, and all of them are in the
tables; at the latest after ``[agent] recheck_timeout``. The same holds after
a boot, where nothing is known yet.
"""

import os
import threading
import time

from oslo_log import log as logging

from octavia_xdp_provider.node import checker_status

LOG = logging.getLogger(__name__)

# Between two looks at what is still missing.
LOOK_S = 0.1
_DELTA = '.delta'


class Recheck:
    """Decides for one VIP after the other.

    :param uplinks: monitor.UplinkMonitor.
    :param files: run_directory.RunDirectory.
    :param sessions: called, returns {neighbour: 'up' or 'down'}, empty if
        nobody knows.
    :param look_again: called from a thread when there may be news.
    :ivar allows_all: since ``begin``: whether it would allow every VIP.
    """

    def __init__(self, conf, uplinks, files, sessions, look_again):
        self._timeout_ns = int(conf.agent.recheck_timeout * 1e9)
        self._uplinks = uplinks
        self._files = files
        self._sessions = sessions
        self._look_again = look_again
        self._first_ns = None   # of the first pass over what is wanted
        self._held_back = set()
        self._families = {}
        self._isolated = False
        self._settling = None
        self._now_ns = 0
        self.allows_all = False

    def begin(self, is_wanted_known):
        """Before the VIPs of one look are asked for."""
        self._now_ns = time.monotonic_ns()
        if is_wanted_known and self._first_ns is None:
            self._first_ns = self._now_ns
        self._families = self._uplinks.families
        self._settling = None
        self._isolated = self._is_isolated()
        self._missing = set()
        # As it is most of the time: nothing is against any VIP.
        self.allows_all = not self._isolated and not self._uplinks.lost and (
            not any(self._is_out(family) or self._is_recent(family)
                    for family in self._families))

    def allows(self, vip, held, families, checks):
        """Whether a VIP may be announced now.

        :param held: it is announced.
        :param families: of outer packets to its members.
        :param checks: keys of its members' checks, as in the checks file.
        """
        if families & self._uplinks.lost:
            return False
        waits = [family for family in families if self._is_recent(family)]
        if self._isolated and (waits or any(
                self._is_out(family) for family in families)):
            # Nobody sends packets here. The session that comes next is to
            # find the VIP withdrawn.
            held = False
        if held:
            return True
        if any(self._is_out(family) for family in families):
            return False
        if not waits or self._is_settled(waits, checks):
            return True
        self._missing.add(vip)
        return False

    def end(self):
        """After all VIPs: say what has changed, and come again."""
        held_back, self._held_back = self._held_back, self._missing
        for vip in sorted(self._missing - held_back):
            LOG.info('%s is not announced before its members have been '
                     'probed again.', vip)
        if self._missing:
            timer = threading.Timer(LOOK_S, self._look_again)
            timer.daemon = True
            timer.start()

    def _is_out(self, family):
        known = self._families.get(family)
        return known is not None and known.since_ns is None

    def _is_recent(self, family):
        """Whether an uplink of a family, or this process, has worked for
        less than the time-out."""
        known = self._families.get(family)
        if known is None or known.since_ns is None:
            return False
        return self._now_ns < self._timeout_ns + max(
            known.since_ns, self._first_ns or self._now_ns)

    def _is_isolated(self):
        sessions = self._sessions()
        return bool(sessions) and 'up' not in sessions.values()

    def _is_settled(self, families, checks):
        if not checks:
            return True
        if self._settling is None:
            self._settling = self._read()
        settling = self._settling
        return bool(
            settling and not settling.unwritten
            and all(settling.families.get(family)
                    == self._families[family].since_ns for family in families)
            and settling.number == len(settling.keys)
            and not settling.keys & checks)

    def _read(self):
        """What the checker says, once the handler has applied it all."""
        settling = checker_status.settling(self._files.checker_socket)
        try:
            waiting = any(name.endswith(_DELTA)
                          for name in os.listdir(self._files.queue))
        except OSError:
            waiting = True
        return None if waiting else settling

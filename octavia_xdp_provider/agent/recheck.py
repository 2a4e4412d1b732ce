# SPDX-License-Identifier: Apache-2.0
"""Whether a node that was without an uplink may announce a VIP.

While no uplink works, the health checker gets no results. When an uplink
works again, it probes all members at once; until that is done, the tables
have the states from before. A withdrawn VIP is announced when all checks of
its members are settled and their results are in the tables, at the latest
after ``[agent] recheck_timeout``. The same applies after a boot, when no
state is known yet.
"""

from collections.abc import Callable
import os
import threading
import time

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.node import checker_status
from octavia_xdp_provider.node import run_directory

LOG = logging.getLogger(__name__)

# Interval of looks while VIPs are held back.
LOOK_S = 0.1
_DELTA = '.delta'


class Recheck:
    """Decides for each VIP between ``begin`` and ``end``.

    :param sessions: returns {neighbour: 'up' or 'down'}, empty if unknown.
    :param look_again: called from a timer's thread while VIPs are held back.
    :ivar allows_all: whether every VIP is allowed since ``begin``.
    """

    def __init__(self, conf: cfg.ConfigOpts, uplinks: monitor.UplinkMonitor,
                 files: run_directory.RunDirectory,
                 sessions: Callable[[], dict[str, str]],
                 look_again: Callable[[], None]) -> None:
        self._timeout_ns = int(conf.agent.recheck_timeout * 1e9)
        self._uplinks = uplinks
        self._files = files
        self._sessions = sessions
        self._look_again = look_again
        # Time of the first pass with wanted state.
        self._first_ns: int | None = None
        self._held_back: set[str] = set()
        self._missing: set[str] = set()
        self._families: dict[int, uplinks_file.Family] = {}
        self._isolated = False
        self._settling: checker_status.Settling | None = None
        self._now_ns = 0
        self.allows_all = False

    def begin(self, is_wanted_known: bool) -> None:
        """Begin a look at all VIPs."""
        self._now_ns = time.monotonic_ns()
        if is_wanted_known and self._first_ns is None:
            self._first_ns = self._now_ns
        self._families = self._uplinks.families
        self._settling = None
        self._isolated = self._is_isolated()
        self._missing = set()
        # The common case, in which no VIP needs a look of its own.
        self.allows_all = not self._isolated and not self._uplinks.lost and (
            not any(self._is_out(family) or self._is_recent(family)
                    for family in self._families))

    def allows(self, vip: str, held: bool, families: frozenset[int],
               checks: frozenset[str]) -> bool:
        """Return whether a VIP may be announced now.

        :param held: whether it is announced already.
        :param families: families of outer packets to its members.
        :param checks: keys of its members' checks, as in the checks file.
        """
        if families & self._uplinks.lost:
            return False
        waits = [family for family in families if self._is_recent(family)]
        if self._isolated and (waits or any(
                self._is_out(family) for family in families)):
            # No session is up, so no packets arrive. Withdraw the VIP before
            # the next session announces it.
            held = False
        if held:
            return True
        if any(self._is_out(family) for family in families):
            return False
        if not waits or self._is_settled(waits, checks):
            return True
        self._missing.add(vip)
        return False

    def end(self) -> None:
        """End a look: log new delays, and schedule another look."""
        held_back, self._held_back = self._held_back, self._missing
        for vip in sorted(self._missing - held_back):
            LOG.info('%s is not announced before its members have been '
                     'probed again.', vip)
        if self._missing:
            timer = threading.Timer(LOOK_S, self._look_again)
            timer.daemon = True
            timer.start()

    def _is_out(self, family: int) -> bool:
        state = self._families.get(family)
        return state is not None and state.since_ns is None

    def _is_recent(self, family: int) -> bool:
        """Return whether uplinks of a family, or this agent, have worked for
        less than the timeout."""
        state = self._families.get(family)
        if state is None or state.since_ns is None:
            return False
        return self._now_ns < self._timeout_ns + max(
            state.since_ns, self._first_ns or self._now_ns)

    def _is_isolated(self) -> bool:
        sessions = self._sessions()
        return bool(sessions) and 'up' not in sessions.values()

    def _is_settled(self, families: list[int], checks: frozenset[str]
                    ) -> bool:
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

    def _read(self) -> checker_status.Settling | None:
        """Return the checker's unsettled checks, or None while the result
        handler has results to apply."""
        settling = checker_status.settling(self._files.checker_socket)
        try:
            waiting = any(name.endswith(_DELTA)
                          for name in os.listdir(self._files.queue))
        except OSError:
            waiting = True
        return None if waiting else settling

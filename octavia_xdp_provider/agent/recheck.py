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
import dataclasses
import os
import threading
import time

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.health import checker_status
from octavia_xdp_provider.node import run_directory

LOG = logging.getLogger(__name__)

# Interval of looks while VIPs are held back.
LOOK_S = 0.1
_DELTA = '.delta'


@dataclasses.dataclass
class _Look:
    """The state of the node during one look at all VIPs.

    ``out``: families without a working uplink. ``recent``: since when uplinks
    of families work, if they or this agent have worked for less than the
    timeout. ``is_isolated``: no session is up. ``settling``: read if needed.
    """

    out: frozenset[int] = frozenset()
    recent: dict[int, int] = dataclasses.field(default_factory=dict)
    is_isolated: bool = False
    settling: checker_status.Settling | None = None
    held_back: set[str] = dataclasses.field(default_factory=set)


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
        self._look = _Look()
        self._held_back: set[str] = set()  # in the look before
        self.allows_all = False

    def begin(self, is_wanted_known: bool) -> None:
        """Begin a look at all VIPs."""
        now_ns = time.monotonic_ns()
        if is_wanted_known and self._first_ns is None:
            self._first_ns = now_ns
        began_ns = self._first_ns or now_ns
        since = {family: state.since_ns
                 for family, state in self._uplinks.families.items()}
        sessions = self._sessions()
        self._look = look = _Look(
            frozenset(family for family in since if since[family] is None),
            {family: since_ns for family, since_ns in since.items()
             if since_ns is not None
             and now_ns < max(since_ns, began_ns) + self._timeout_ns},
            bool(sessions) and 'up' not in sessions.values())
        # The common case, in which no VIP needs a look of its own.
        self.allows_all = not (look.is_isolated or self._uplinks.lost
                               or look.out or look.recent)

    def allows(self, vip: str, held: bool, families: frozenset[int],
               checks: frozenset[str]) -> bool:
        """Return whether a VIP may be announced now.

        :param held: whether it is announced already.
        :param families: families of outer packets to its members.
        :param checks: keys of its members' checks, as in the checks file.
        """
        look = self._look
        if families & self._uplinks.lost:
            return False
        waits, out = families & look.recent.keys(), families & look.out
        # Without a session no packets arrive. Withdraw the VIP before the next
        # session announces it.
        if held and not (look.is_isolated and (waits or out)):
            return True
        if out:
            return False
        if not waits or self._is_settled(waits, checks):
            return True
        look.held_back.add(vip)
        return False

    def end(self) -> None:
        """End a look: log new delays, and schedule another look."""
        before, self._held_back = self._held_back, self._look.held_back
        for vip in sorted(self._held_back - before):
            LOG.info('%s is not announced before its members have been '
                     'probed again.', vip)
        if self._held_back:
            timer = threading.Timer(LOOK_S, self._look_again)
            timer.daemon = True
            timer.start()

    def _is_settled(self, families: frozenset[int], checks: frozenset[str]
                    ) -> bool:
        if not checks:
            return True
        look = self._look
        if look.settling is None:
            look.settling = self._read()
        settling = look.settling
        return bool(
            settling and not settling.unwritten
            and all(settling.families.get(family) == look.recent[family]
                    for family in families)
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

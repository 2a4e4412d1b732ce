# SPDX-License-Identifier: Apache-2.0
"""What an LB node or a hypervisor has yet to report, and how.

An epoch of reports begins with the complete state; later reports hold what
has changed since. One report is sent at a time, and is repeated unchanged
until the controller answers: it accepts each one once, in order. If it cannot
accept one (because its database was replaced, or another agent has reported
under this name), a new epoch begins.

Reports contain values and not differences, such as a member's state, so that
a delayed report is still correct.
"""

from collections.abc import Callable
import dataclasses
import time
from typing import Any
from typing import NamedTuple

from oslo_log import log as logging

from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import messages

LOG = logging.getLogger(__name__)


def _nothing(_entry: Any) -> int:
    return 0


def _members(held: messages.Held) -> int:
    return len(held['members']) + history.weights_in(held.get('history', {}))


class Sizes(NamedTuple):
    """Limits of one report.

    ``held``, ``counters``, ``gone``: number of ids. ``weigh_held``,
    ``weigh_counters``: return the weight of an entry, such as its number of
    members; the sum is at most ``held_weight`` or ``counters_weight``, unless
    a single entry exceeds it.
    """

    held: int
    gone: int
    counters: int
    weigh_held: Callable[[Any], int] = _nothing
    held_weight: int = 0
    weigh_counters: Callable[[Any], int] = _nothing
    counters_weight: int = 0


NODES = Sizes(messages.REPORT_PAGE, messages.COMPARE_PAGE,
              messages.REPORT_PAGE, _members, messages.REPORT_PAGE_MEMBERS)


@dataclasses.dataclass
class Facts:
    """The state to be reported, fields as in messages.Report or
    host_messages.Report.

    ``held``: the latest change comes last, and is reported first.
    ``awaited_as_of``: generation whose confirmation the controller awaits.
    """

    as_of: int = 0
    held: dict[str, Any] = dataclasses.field(default_factory=dict)
    counters: dict[str, Any] = dataclasses.field(default_factory=dict)
    state: Any = dataclasses.field(default_factory=dict)
    awaited_as_of: int = 0


class Reporter:
    """Creates and sends reports. Not thread-safe.

    :param epoch: of the first report; should be above all earlier ones, as
        the default, a time, is. If it is not, the controller's answer says so.
    """

    def __init__(self, epoch: int | None = None, sizes: Sizes = NODES
                 ) -> None:
        self._sizes = sizes
        self._epoch = time.time_ns() // 10 ** 6 if epoch is None else epoch
        self._begin(self._epoch)

    def _begin(self, epoch: int) -> None:
        self._epoch, self._seq = epoch, 0
        self._reported = Facts()
        self._open: Any = None
        self._complete = False

    def again(self, ids: list[str]) -> None:
        """Report these load balancers again: the controller asks for a state
        that this node may have already."""
        for key in ids:
            self._reported.held.pop(key, None)

    @property
    def is_behind(self) -> bool:
        """Whether there is more to report than fits into one report."""
        return self._open is not None or not self._complete

    def has_news(self, facts: Facts) -> bool:
        """Return whether anything has not been reported."""
        if self.is_behind or (
                self._reported.as_of < facts.awaited_as_of <= facts.as_of):
            return True
        page = self._page(facts)
        return bool(page['held'] or page['gone'] or page['counters']
                    or page['state'] is not None)

    def next(self, facts: Facts) -> tuple[int, int, Any]:
        """Return epoch, number and content of the report to send."""
        if self._open is None:
            self._open = self._page(facts)
            self._seq += 1
        return self._epoch, self._seq, self._open

    def send(self, controller: Any, host: str, facts: Facts,
             has_other: Callable[[], bool] = lambda: False) -> None:
        """Send reports until everything has been reported.

        :param controller: rpc.NodesClient.
        :param has_other: returns whether the caller has other work that must
            not wait: then the rest is left for the next call.
        """
        while True:
            answer = controller.report(host, *self.next(facts))
            if not self.answered(answer):
                LOG.info('The controller asks for a complete report.')
            elif not self.is_behind or has_other():
                return

    def _page(self, facts: Facts) -> Any:
        reported, sizes = self._reported, self._sizes
        held: dict[str, Any] = {}
        complete, room = True, sizes.held_weight
        for key, entry in reversed(facts.held.items()):
            before = reported.held.get(key)
            if before is entry or before == entry:
                continue
            room -= sizes.weigh_held(entry)
            if held and (room < 0 or len(held) == sizes.held):
                complete = False
                break
            held[key] = entry
        gone = [key for key in reported.held if key not in facts.held]
        complete &= len(gone) <= sizes.gone
        timed = any('history' in entry for entry in held.values())
        return {**({'clock': history.clock()} if timed else {}),
                'as_of': facts.as_of, 'complete': complete, 'held': held,
                'gone': gone[:sizes.gone],
                'counters': self._page_of_counters(facts),
                'state': None if facts.state == reported.state
                else facts.state}

    def _page_of_counters(self, facts: Facts) -> dict[str, Any]:
        page: dict[str, Any] = {}
        room = self._sizes.counters_weight
        for key, counters in facts.counters.items():
            if self._reported.counters.get(key) == counters or (
                    key not in facts.held):
                continue
            room -= self._sizes.weigh_counters(counters)
            if page and (room < 0 or len(page) == self._sizes.counters):
                break
            page[key] = counters
        return page

    def answered(self, answer: messages.ReportAnswer) -> bool:
        """Process the controller's answer. Returns False if a new epoch
        begins, with the complete state."""
        if self._open is None:
            return True
        if not answer['taken'] or (answer['epoch'], answer['seq']) != (
                self._epoch, self._seq):
            self._begin(max(self._epoch, answer['epoch']) + 1)
            return False
        reported, report, self._open = self._reported, self._open, None
        reported.as_of = report['as_of']
        reported.held.update(report['held'])
        for key in report['gone']:
            reported.held.pop(key, None)
            reported.counters.pop(key, None)
        reported.counters.update(report['counters'])
        if report['state'] is not None:
            reported.state = report['state']
        self._complete = report['complete']
        return True

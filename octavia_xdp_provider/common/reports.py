# SPDX-License-Identifier: Apache-2.0
"""What an LB node or a hypervisor has still to report, and how.

An epoch of reports begins with all that it has; then goes what has
changed since. One report is under way at a time and is repeated as it is
until the controller answers: it takes each once, in order. Where it cannot
take one (its database is another one, say, or another agent has reported
under this name), a new epoch begins.

All values are whole: a member's state, and not its change. So whatever is
reported late is reported right.
"""

from collections.abc import Callable
import dataclasses
import time
from typing import Any
from typing import NamedTuple

from oslo_log import log as logging

from octavia_xdp_provider.common import history
from octavia_xdp_provider.common import messages

LOG = logging.getLogger(__name__)


def _nothing(_one: Any) -> int:
    return 0


def _members(one: messages.Held) -> int:
    return len(one['members']) + history.weights_in(one.get('history', {}))


class Sizes(NamedTuple):
    """How much one report takes.

    ``held``, ``counters``: of so many ids at most; ``gone``: ids.
    ``weigh_held``, ``weigh_counters``: what is within one of them, members
    say; of them all together at most ``held_weight``, ``counters_weight``,
    unless one alone is more.
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
    """What there is to be reported, fields as in messages.Report or
    host_messages.Report.

    ``held``: what has changed last comes last; it is reported first.
    ``awaited_as_of``: the controller waits for the word that the node has
    seen what was wanted then.
    """

    as_of: int = 0
    held: dict[str, Any] = dataclasses.field(default_factory=dict)
    counters: dict[str, Any] = dataclasses.field(default_factory=dict)
    state: Any = dataclasses.field(default_factory=dict)
    awaited_as_of: int = 0


class Reporter:
    """Makes reports; belongs to one thread.

    :param epoch: of the first; greater than any before, as clocks go. The
        controller says so if it was not.
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
        """Report these load balancers once more: the controller asks for
        something that this node may have already."""
        for key in ids:
            self._reported.held.pop(key, None)

    @property
    def is_behind(self) -> bool:
        """Whether more is to be reported than one report takes."""
        return self._open is not None or not self._complete

    def has_news(self, facts: Facts) -> bool:
        """Whether there is something that was not reported."""
        if self.is_behind or (
                self._reported.as_of < facts.awaited_as_of <= facts.as_of):
            return True
        page = self._page(facts)
        return bool(page['held'] or page['gone'] or page['counters']
                    or page['state'] is not None)

    def next(self, facts: Facts) -> tuple[int, int, Any]:
        """Epoch, number and content of the report that is to be sent."""
        if self._open is None:
            self._open = self._page(facts)
            self._seq += 1
        return self._epoch, self._seq, self._open

    def send(self, controller: Any, host: str, facts: Facts,
             has_other: Callable[[], bool] = lambda: False) -> None:
        """Report all that a controller has not been sent.

        :param controller: rpc.NodesClient.
        :param has_other: whether the caller has something else to do, which
            shall not wait for all of it: then some is left for the next time.
        """
        while True:
            answer = controller.report(host, *self.next(facts))
            if not self.answered(answer):
                LOG.info('The controller asks for all that this node has.')
            elif not self.is_behind or has_other():
                return

    def _page(self, facts: Facts) -> Any:
        reported, sizes = self._reported, self._sizes
        held: dict[str, Any] = {}
        complete, room = True, sizes.held_weight
        for key, one in reversed(facts.held.items()):
            before = reported.held.get(key)
            if before is one or before == one:
                continue
            room -= sizes.weigh_held(one)
            if held and (room < 0 or len(held) == sizes.held):
                complete = False
                break
            held[key] = one
        gone = [key for key in reported.held if key not in facts.held]
        complete &= len(gone) <= sizes.gone
        timed = any('history' in one for one in held.values())
        return {**({'clock': history.clock()} if timed else {}),
                'as_of': facts.as_of, 'complete': complete, 'held': held,
                'gone': gone[:sizes.gone],
                'counters': self._page_of_counters(facts),
                'state': None if facts.state == reported.state
                else facts.state}

    def _page_of_counters(self, facts: Facts) -> dict[str, Any]:
        found: dict[str, Any] = {}
        room = self._sizes.counters_weight
        for key, one in facts.counters.items():
            if self._reported.counters.get(key) == one or (
                    key not in facts.held):
                continue
            room -= self._sizes.weigh_counters(one)
            if found and (room < 0 or len(found) == self._sizes.counters):
                break
            found[key] = one
        return found

    def answered(self, answer: messages.ReportAnswer) -> bool:
        """Take the controller's answer. False: all is reported once more."""
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

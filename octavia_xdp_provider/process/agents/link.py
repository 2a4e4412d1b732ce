# SPDX-License-Identifier: Apache-2.0
"""The thread of an agent that talks to the controller.

The link fetches the wanted state of an LB node or a hypervisor, waits until
the worker has applied it, and reports.
"""

import collections
from collections.abc import Callable
import threading
import time
from typing import Any

from oslo_log import log as logging

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import wanted as wanted_state

LOG = logging.getLogger(__name__)

Failed = Callable[[str], None]

# Pages queued for the link; if there are more, it fetches instead.
PAGES_MAX = 16
# Wait after a failure of the link.
RETRY_S = 1.0
# For the worker to apply the fetched state before it is reported.
WORKER_TIMEOUT_S = 10.0


class Link:
    """Talks to the controller from ``run`` until ``stop``.

    :param interval_s: seconds between two fetches without a notification.
    :param failed: called with "link" if the controller cannot be reached.
    :ivar answered_at: time.monotonic() of the controller's last answer.
    """

    # Exceptions of reading the worker's tables; the report is retried.
    unreadable: type[Exception] | tuple[type[Exception], ...] = ()
    # Whose messages the log names if the controller refuses one.
    sender = 'agent'
    # time.monotonic() at which ``ask_more`` is due.
    ask_more_at = float('inf')

    def __init__(self, ends: reporting.Ends, interval_s: float,
                 failed: Failed = lambda kind: None) -> None:
        self._ends = ends
        self._fetcher = ends.fetcher
        self._worker = ends.worker
        self.interval_s = interval_s
        self._failed = failed
        self._reporting = reporting.Reporting(ends, self.distrusted)
        self.answered_at = time.monotonic()
        self._complaint: str | None = None
        self._stop = threading.Event()
        self._talk = threading.Event()
        self._ask = True
        self._ask_at = 0.0
        self._pages: collections.deque[tuple[Any, Any]] = collections.deque()

    def wake(self, since: Any = None, page: Any = None) -> None:
        """Take the page that the controller has sent, or fetch.

        :param since: see Fetcher.receive.
        :param page: see Fetcher.receive; None: the notification had none.
        """
        if page is None or len(self._pages) >= PAGES_MAX:
            self._ask = True
        else:
            self._pages.append((since, page))
        self._talk.set()

    def report_soon(self) -> None:
        """Report now if anything has changed."""
        self._talk.set()

    def stop(self) -> None:
        self._stop.set()
        self._talk.set()

    @property
    def wanted(self) -> wanted_state.Wanted | None:
        """The fetched state, or None while it is not known."""
        return self._fetcher.wanted

    @property
    def reported_at(self) -> float:
        """See Reporting."""
        return self._reporting.reported_at

    def run(self) -> None:
        if self._fetcher.wanted is not None:
            self._worker.want(self._fetcher.wanted)
        while not self._stop.is_set():
            self._talk.clear()
            # The worker also wakes this loop when a pass ends: that needs a
            # report only, not another fetch.
            if self._ask or time.monotonic() >= self._ask_at:
                talk = self._turn
            else:
                talk = self._receive if self._pages else self._report_news
            if self._try(talk) and self._try(self.ask_more):
                until = min(self._ask_at, self.ask_more_at)
            else:
                self._stop.wait(RETRY_S)
                until = self._ask_at = time.monotonic() + self.interval_s
            self._talk.wait(max(0.0, until - time.monotonic()))

    def _turn(self) -> None:
        """Fetch, have it applied and report."""
        self._follow(self._fetch_now)

    def _receive(self) -> None:
        """The same with the pages that were received."""
        self._follow(self._receive_pages)

    def _follow(self, find_out: Callable[[], list[str]]) -> None:
        before = self._fetcher.wanted
        mentioned = find_out()
        self._ends.reporter.again(mentioned)
        wanted = self._fetcher.wanted
        if wanted is not None and before is not None:
            self.added({key for key in mentioned if key in wanted.documents
                        and key not in before.documents})
        if wanted is not None and (
                before is None or wanted.documents is not before.documents):
            self._worker.want(wanted)
            # Meanwhile the worker applies it.
            self._fetcher.save()
            self._worker.wait_for(wanted, WORKER_TIMEOUT_S)
        else:
            self._fetcher.save()
        self._report(self._reporting.is_due)

    def _fetch_now(self) -> list[str]:
        """Fetch the wanted state. Returns the ids in the answer."""
        self._ask = False
        self._ask_at = time.monotonic() + self.interval_s
        self._pages.clear()  # The answer has all that was sent before.
        return self._fetcher.fetch()

    def _receive_pages(self) -> list[str]:
        """The same from received pages, or by a fetch if one cannot be used.
        """
        mentioned: list[str] = []
        while self._pages:
            ids = self._fetcher.receive(*self._pages.popleft())
            if ids is None:
                return mentioned + self._fetch_now()
            mentioned += ids
        self._ask_at = time.monotonic() + self.interval_s
        return mentioned

    def _try(self, function: Callable[[], None]) -> bool:
        """Call a function and return whether it succeeded. A lasting failure
        is logged once."""
        complaint = None
        try:
            function()
        except self.unreadable as error:
            # May be an OSError too, but not one of the transport.
            LOG.error('The tables cannot be read for the report: %s.',
                      getattr(error, 'text', error))
            return False
        except rpc.TRANSPORT_ERRORS as error:
            complaint = self.complain(error)
        except errors.Refused as error:
            complaint = f'An answer of the controller is malformed: {error}'
        except Exception:
            LOG.exception('Talking to the controller failed.')
            return False
        if complaint and self._complaint is None:
            LOG.warning('%s', complaint)
        elif complaint is None and self._complaint:
            LOG.info('The controller answers again.')
        self._complaint = complaint
        if complaint is None:
            self.answered_at = time.monotonic()
        else:
            self._failed('link')
        return complaint is None

    def complain(self, error: Exception) -> str:
        """Return the log message about a controller that is unreachable."""
        if rpc.is_unsupported_version(error):
            return self.unsupported()
        if rpc.is_refused(error):
            return ('The controller refuses a message of this '
                    f'{self.sender}: {error}')
        return (f'The controller does not answer ({type(error).__name__}: '
                f'{error}); going on with what it sent last.')

    def unsupported(self) -> str:
        """Return the message about a controller that does not support the
        agent's version of the interface."""
        raise NotImplementedError

    def report(self) -> None:
        """Send a report, even if nothing has changed."""
        self._report(anyway=True)

    def _report_news(self) -> None:
        """Report if anything has changed."""
        self._report(anyway=False)

    def _report(self, anyway: bool) -> None:
        # A user waits for the latest change, but not for a report on a
        # thousand load balancers: new work interrupts the report.
        self._reporting.report(lambda: self._ask or bool(self._pages), anyway)
        self.send_more()

    # What subclasses may replace. All may raise what ``_turn`` may.

    def added(self, ids: set[str]) -> None:
        """Hook for ids whose documents are new to this agent."""

    def ask_more(self) -> None:
        """Fetch what an agent needs besides documents, if that is due."""

    def send_more(self) -> None:
        """Send what an agent has besides reports."""

    def distrusted(self, held: dict[str, Any], problems: list[str]
                   ) -> dict[str, Any]:
        """Return what an agent with problems reports in place of ``held``."""
        return held

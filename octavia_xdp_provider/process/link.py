# SPDX-License-Identifier: Apache-2.0
"""The threads of an agent that talk to the controller.

The link fetches the wanted state of an LB node or a hypervisor, waits until
the worker has applied it, and reports. The heartbeat of LB nodes is sent
separately, so that a node that is busy, or has a lot to report, is not
considered dead.
"""

import collections
import threading
import time

from oslo_log import log as logging

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.process import reports

LOG = logging.getLogger(__name__)

# Pages queued for the link; if there are more, it fetches instead.
PAGES_MAX = 16
# Wait after a failure of the link.
RETRY_S = 1.0
# For the worker to apply the fetched state before it is reported.
WORKER_TIMEOUT_S = 10.0
# Interval of heartbeats.
HEARTBEAT_S = 2.0
# Longest time between two reports: a controller whose database was restored
# has lost earlier ones.
SILENCE_S = 30.0
# Between two reports of counters and of figures that change all the time.
FIGURES_S = 10.0


class Link:
    """Talks to the controller from ``run`` until ``stop``.

    :param host: the agent's name.
    :param controller: rpc.NodesClient, or an object with the same calls.
    :param fetcher: fetching.Fetcher.
    :param reporter: reports.Reporter.
    :param worker: applies the wanted state and provides the actual one.
    :param state: ``read(problems)`` returns the agent's own state.
    :param files: has ``check_writable()`` and ``directory``.
    :param interval: seconds between two fetches without a notification.
    :param failed: called with "link" if the controller cannot be reached.
    :ivar answered_at: time.monotonic() of the controller's last answer.
    :ivar reported_at: time.monotonic() of the last accepted report.
    """

    # Exceptions of reading the worker's tables; the report is retried.
    unreadable = ()
    # time.monotonic() at which ``ask_more`` is due.
    ask_more_at = float('inf')

    def __init__(self, host, controller, fetcher, reporter, worker, state,
                 files, interval, failed=lambda kind: None):
        self._failed = failed
        self.answered_at = time.monotonic()
        self.reported_at = float('-inf')
        self._host = host
        self._controller = controller
        self._fetcher = fetcher
        self._worker = worker
        self._state = state
        self._files = files
        self._interval = interval
        self._reporter = reporter
        self._facts = reports.Facts()
        self._figures_at = 0.0
        self._problems = []
        self._directory_error = None
        self._complaint = None
        self._stop = threading.Event()
        self._talk = threading.Event()
        self._ask = True
        self._ask_at = 0.0
        self._report_at = 0.0
        self._pages = collections.deque()

    def wake(self, since=None, page=None):
        """Take the page that the controller has sent, or fetch.

        :param since: see Fetcher.receive.
        :param page: see Fetcher.receive; None: the notification had none.
        """
        if page is None or len(self._pages) >= PAGES_MAX:
            self._ask = True
        else:
            self._pages.append((since, page))
        self._talk.set()

    def report_soon(self):
        """Report now if anything has changed."""
        self._talk.set()

    def stop(self):
        self._stop.set()
        self._talk.set()

    @property
    def wanted(self):
        """wanted.Wanted, or None while it is not known."""
        return self._fetcher.wanted

    def run(self):
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
                until = self._ask_at = time.monotonic() + self._interval
            self._talk.wait(max(0.0, until - time.monotonic()))

    def _turn(self):
        """Fetch, have it applied and report."""
        self._follow(self._fetch_now)

    def _receive(self):
        """The same with the pages that were received."""
        self._follow(self._receive_pages)

    def _follow(self, find_out):
        before = self._fetcher.wanted
        mentioned = find_out()
        self._reporter.again(mentioned)
        wanted = self._fetcher.wanted
        if before is not None:
            self.added({key for key in mentioned if key in wanted.documents
                        and key not in before.documents})
        if (before is None
                or wanted.documents is not before.documents):
            self._worker.want(wanted)
            # Meanwhile the worker applies it.
            self._fetcher.save()
            self._worker.wait_for(wanted, WORKER_TIMEOUT_S)
        else:
            self._fetcher.save()
        if time.monotonic() >= self._report_at:
            self.report()
        else:
            self._report_news()

    def _fetch_now(self):
        """Fetch the wanted state. Returns the ids in the answer."""
        self._ask = False
        self._ask_at = time.monotonic() + self._interval
        self._pages.clear()  # The answer has all that was sent before.
        return self._fetcher.fetch()

    def _receive_pages(self):
        """The same from received pages, or by a fetch if one cannot be used.
        """
        mentioned = []
        while self._pages:
            ids = self._fetcher.receive(*self._pages.popleft())
            if ids is None:
                return mentioned + self._fetch_now()
            mentioned += ids
        self._ask_at = time.monotonic() + self._interval
        return mentioned

    def _try(self, function):
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

    def added(self, ids):
        """Hook for ids whose documents are new to this agent."""

    def ask_more(self):
        """Fetch what an agent needs besides documents, if that is due.
        Raises as ``_turn`` does."""

    def complain(self, error):
        """Return the log message about a controller that is unreachable."""
        return (f'The controller does not answer ({type(error).__name__}: '
                f'{error}); going on with what it sent last.')

    def distrusted(self, held, problems):
        """Return what an agent with problems reports in place of ``held``."""
        return held

    def report(self):
        """Send a report, even if nothing has changed."""
        if self._worker.result is None:
            return
        self._collect()
        self._send()
        self._report_at = time.monotonic() + SILENCE_S

    def _send(self):
        began = time.monotonic()
        # A user waits for the latest change, but not for a report on a
        # thousand load balancers: new work interrupts the report.
        self._reporter.send(self._controller, self._host, self._facts,
                            lambda: self._ask or bool(self._pages))
        # Not the time of the answer, which may come late.
        self.reported_at = began

    def _report_news(self):
        """Report if anything has changed."""
        if self._worker.result is None:
            return
        self._collect()
        if self._reporter.has_news(self._facts):
            self._send()

    def _collect(self):
        """Update the facts that reports are made from."""
        result, wanted = self._worker.result, self._fetcher.wanted
        # A state that was applied for an earlier fetch also satisfies a later
        # one with the same documents.
        self._facts.as_of = (
            wanted if self._worker.has_made_true(wanted)
            else result.wanted).as_of
        problems = self._find_problems()
        self._facts.awaited_as_of = self._fetcher.removed_as_of
        self._facts.held = self.distrusted(self._worker.held, problems)
        now = time.monotonic()
        if now >= self._figures_at or problems != self._problems:
            self._figures_at = now + FIGURES_S
            self._facts.counters = self._worker.counters()
            self._facts.state = self._state.read(problems)
        self._problems = problems

    def _find_problems(self):
        """Return texts that say why the wanted state is not applied."""
        problems = list(self._worker.problems)
        error = None
        try:
            self._files.check_writable()
        except OSError as caught:
            error = (f'{self._files.directory} cannot be written: '
                     f'{caught.strerror or caught}')
            problems.append(error)
        if error != self._directory_error:
            if error:
                LOG.error('%s. This agent reports that it cannot apply the '
                          'wanted state.', error)
            else:
                LOG.info('%s can be written again.', self._files.directory)
        self._directory_error = error
        return problems


class Heartbeat:
    """Sends heartbeats unless a report has just served as one. Only its own
    thread waits for an unreachable broker.

    :param client: rpc.HeartbeatClient.
    :param reported_at: returns Link.reported_at.
    :param failed: called with "heartbeat" if one could not be sent.
    """

    def __init__(self, host, client, failed=lambda kind: None,
                 reported_at=lambda: float('-inf')):
        self._failed = failed
        self._reported_at = reported_at
        self._host = host
        self._client = client
        self._stop = threading.Event()

    def start(self):
        # A daemon thread: a call to an unreachable broker does not return.
        threading.Thread(target=self._run, name='heartbeat',
                         daemon=True).start()

    def stop(self):
        self._stop.set()

    def _run(self):
        last = time.monotonic()
        while not self._stop.wait(max(
                0.0, last + HEARTBEAT_S - time.monotonic())):
            reported_at = self._reported_at()
            if reported_at > last:
                last = reported_at
                continue
            last = time.monotonic()
            try:
                self._client.heartbeat(self._host)
            except rpc.TRANSPORT_ERRORS as error:
                self._failed('heartbeat')
                LOG.debug('No heartbeat: %s', error)
            except Exception:
                LOG.exception('Sending a heartbeat failed; going on.')

# SPDX-License-Identifier: Apache-2.0
"""The threads of an agent that talk to the controller.

The link fetches what an LB node or a hypervisor should have, waits until the
worker has made it true, and reports. The heartbeat of LB nodes only says that
the node is there, on a way of its own, so that a node which is busy, or has a
lot to report, is not taken for dead.
"""

import collections
import threading
import time

from oslo_log import log as logging

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import reports
from octavia_xdp_provider.common import rpc

LOG = logging.getLogger(__name__)

# Pages that wait for the link; where there are more, it asks.
PAGES_MAX = 16
# After a failure of the link.
RETRY_S = 1.0
# For the worker to make true what was fetched, before it is reported.
WORKER_TIMEOUT_S = 10.0
# Without a sign of life.
HEARTBEAT_S = 2.0
# Between two reports if nothing is new: where the controller's database was
# restored, it has forgotten what was reported to it.
SILENCE_S = 30.0
# Between two reports of counters and of figures that always change.
FIGURES_S = 10.0


class Link:
    """Talks; ``run`` until ``stop``.

    :param host: the agent's name.
    :param controller: rpc.NodesClient, or what has its calls.
    :param fetcher: fetching.Fetcher.
    :param reporter: reports.Reporter.
    :param worker: makes true what is wanted, and says what it holds.
    :param state: ``read(problems)`` says what the agent reports of itself.
    :param files: ``check_writable()`` and ``directory``, of its files.
    :param interval: seconds between two questions without a notification.
    :param failed: called with "link" when the controller was not reached.
    :ivar answered_at: when the controller answered last, time.monotonic().
    :ivar reported_at: when it took a report last, the same.
    """

    # Of the worker and its tables; the report is tried again.
    unreadable = ()
    # When ``ask_more`` has something to ask, time.monotonic().
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
        """The controller wants something else: take what it has sent, or
        ask.

        :param since: see Fetcher.receive.
        :param page: the same; None: nothing came.
        """
        if page is None or len(self._pages) >= PAGES_MAX:
            self._ask = True
        else:
            self._pages.append((since, page))
        self._talk.set()

    def report_soon(self):
        """Report now, if there is something new."""
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
            # A pass ends when what was fetched has been made true: nobody
            # has to ask again for that.
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
        """Ask, make it true and report."""
        self._follow(self._ask_now)

    def _receive(self):
        """The same with what has been sent."""
        self._follow(self._take_pages)

    def _follow(self, find_out):
        before = self._fetcher.wanted
        self._reporter.again(find_out())
        wanted = self._fetcher.wanted
        if (before is None
                or wanted.documents is not before.documents):
            self._worker.want(wanted)
            # While the worker is at it.
            self._fetcher.save()
            self._worker.wait_for(wanted, WORKER_TIMEOUT_S)
        else:
            self._fetcher.save()
        if time.monotonic() >= self._report_at:
            self.report()
        else:
            self._report_news()

    def _ask_now(self):
        """Find out what is wanted; ids that the controller mentions."""
        self._ask = False
        self._ask_at = time.monotonic() + self._interval
        self._pages.clear()  # The answer has all that was sent before.
        return self._fetcher.fetch()

    def _take_pages(self):
        """The same, from what has been sent if that will do."""
        mentioned = []
        while self._pages:
            found = self._fetcher.receive(*self._pages.popleft())
            if found is None:
                return mentioned + self._ask_now()
            mentioned += found
        self._ask_at = time.monotonic() + self._interval
        return mentioned

    def _try(self, function):
        """Call a function; whether that went well. A failure that lasts is
        logged once."""
        complaint = None
        try:
            function()
        except self.unreadable as error:
            # An OSError as well, but none of the transport's.
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

    def ask_more(self):
        """Ask for what an agent needs beside documents, if it is time;
        raises as ``_turn`` does."""

    def complain(self, error):
        """Words on a controller that was not reached."""
        return (f'The controller does not answer ({type(error).__name__}: '
                f'{error}); going on with what it sent last.')

    def distrusted(self, held, problems):
        """What an agent with problems reports, in place of ``held``."""
        return held

    def report(self):
        """Report all that has not been reported, and that there
        is no more."""
        if self._worker.result is None:
            return
        self._collect()
        self._send()
        self._report_at = time.monotonic() + SILENCE_S

    def _send(self):
        began = time.monotonic()
        # Somebody waits for what has just been changed, and nobody for the
        # rest of a thousand load balancers.
        self._reporter.send(self._controller, self._host, self._facts,
                            lambda: self._ask or bool(self._pages))
        # Taken after that, however late the answer is.
        self.reported_at = began

    def _report_news(self):
        """Report what has not been reported, if anything."""
        if self._worker.result is None:
            return
        self._collect()
        if self._reporter.has_news(self._facts):
            self._send()

    def _collect(self):
        """What there is to be reported now."""
        result, wanted = self._worker.result, self._fetcher.wanted
        # What was made true for an earlier fetch is true for a later one
        # that asked for the same.
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
        """Why what is wanted is not done: texts, mostly none."""
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
                LOG.error('%s. This agent reports that it cannot do what is '
                          'wanted.', error)
            else:
                LOG.info('%s can be written again.', self._files.directory)
        self._directory_error = error
        return problems


class Heartbeat:
    """Says that the node is there, where no report of it has just done so; a
    broker that is away holds it up and nobody else.

    :param client: rpc.HeartbeatClient.
    :param reported_at: gives Link.reported_at.
    :param failed: called with "heartbeat" when it could not be sent.
    """

    def __init__(self, host, client, failed=lambda kind: None,
                 reported_at=lambda: float('-inf')):
        self._failed = failed
        self._reported_at = reported_at
        self._host = host
        self._client = client
        self._stop = threading.Event()

    def start(self):
        # A daemon: a call to a broker that is away does not end.
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
                LOG.exception('The heartbeat failed and goes on.')

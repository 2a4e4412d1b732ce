# SPDX-License-Identifier: Apache-2.0
"""The threads that talk to the controller.

The link fetches what the node should have, waits until the worker has made
it true, and reports. The heartbeat only says that the node is there, on a
way of its own, so that a node which is busy, or has a lot to tell, is not
taken for dead.
"""

import threading
import time

from oslo_log import log as logging

from octavia_xdp_provider.agent import reports
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)

# After a failure of the link.
RETRY_S = 1.0
# For the worker to make true what was fetched, before it is reported.
WORKER_TIMEOUT_S = 10.0
HEARTBEAT_S = 2.0
# Between two reports of counters and of figures that always change.
FIGURES_S = 10.0


class Link:
    """Talks; ``run`` until ``stop``.

    :param controller: rpc.NodesClient.
    :param fetcher: fetching.Fetcher.
    :param reporter: reports.Reporter.
    :param worker: worker.Worker.
    :param state: node_state.NodeState.
    :param files: run_directory.RunDirectory.
    :param interval: seconds between two questions without a notification.
    :param failed: called with "link" when the controller was not reached.
    :ivar answered_at: when the controller answered last, time.monotonic().
    """

    def __init__(self, host, controller, fetcher, reporter, worker, state,
                 files, interval, failed=lambda kind: None):
        self._failed = failed
        self.answered_at = time.monotonic()
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

    def wake(self):
        """Talk now: something may have changed on either side."""
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
            if not self._try(self._turn):
                self._stop.wait(RETRY_S)
            self._talk.wait(self._interval)

    def _turn(self):
        before = self._fetcher.wanted
        self._reporter.again(self._fetcher.fetch())
        wanted = self._fetcher.wanted
        if (before is None
                or wanted.load_balancers is not before.load_balancers):
            self._worker.want(wanted)
            # While the worker is at it.
            self._fetcher.save()
            self._worker.wait_for(wanted, WORKER_TIMEOUT_S)
        else:
            self._fetcher.save()
        self.report()

    def _try(self, function):
        """Call a function; whether that went well. A failure that lasts is
        logged once."""
        complaint = None
        try:
            function()
        except datapath.DatapathError as error:
            # An OSError as well, but none of the transport's.
            LOG.error('The tables cannot be read for the report: %s.',
                      error.text)
            return False
        except rpc.TRANSPORT_ERRORS as error:
            complaint = self._complain(error)
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

    @staticmethod
    def _complain(error):
        if rpc.is_unsupported_version(error):
            return ('The controller does not know version '
                    f'{rpc.NODES_VERSION} of the interface for nodes. Until '
                    'it is upgraded, set [upgrade_levels] nodes = '
                    f'{rpc.VERSION} on this node.')
        if rpc.is_refused(error):
            return f'The controller refuses what this node says: {error}'
        return (f'The controller does not answer ({type(error).__name__}: '
                f'{error}); going on with what it sent last.')

    def report(self):
        """Tell the controller all that it has not been told."""
        if self._worker.result is None:
            return
        self._collect()
        self._reporter.send(self._controller, self._host, self._facts)

    def _collect(self):
        """What there is to be told now."""
        result, wanted = self._worker.result, self._fetcher.wanted
        # What was made true for an earlier fetch is true for a later one
        # that asked for the same.
        self._facts.as_of = (
            wanted if self._worker.has_made_true(wanted)
            else result.wanted).as_of
        problems = self._find_problems()
        self._facts.held = distrusted(self._worker.held, problems)
        now = time.monotonic()
        if now >= self._figures_at or problems != self._problems:
            self._figures_at = now + FIGURES_S
            self._facts.counters = self._worker.counters()
            self._facts.state = self._state.read(problems)
        self._problems = problems

    def _find_problems(self):
        """Why this node does not do what is wanted: texts, mostly none."""
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
                LOG.error('%s. This node reports that it cannot do what is '
                          'wanted.', error)
            else:
                LOG.info('%s can be written again.', self._files.directory)
        self._directory_error = error
        return problems


def distrusted(held, problems):
    """What a node with problems reports: nobody waits for it, or believes
    what it says of members.

    :param held: id → messages.Held.
    """
    if not problems:
        return held
    error = problems[0][:messages.TEXT_MAX]
    return {key: {**one, 'error': one['error'] or error,
                  'members': dict.fromkeys(one['members'], 'unknown')}
            for key, one in held.items()}


class Heartbeat:
    """Says that the node is there; a broker that is away holds it up and
    nobody else.

    :param client: rpc.HeartbeatClient.
    :param failed: called with "heartbeat" when it could not be sent.
    """

    def __init__(self, host, client, failed=lambda kind: None):
        self._failed = failed
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
        while not self._stop.wait(HEARTBEAT_S):
            try:
                self._client.heartbeat(self._host)
            except rpc.TRANSPORT_ERRORS as error:
                self._failed('heartbeat')
                LOG.debug('No heartbeat: %s', error)
            except Exception:
                LOG.exception('The heartbeat failed and goes on.')

# SPDX-License-Identifier: Apache-2.0
"""Limits the work and the log lines that one node's calls may cause.

oslo.messaging logs a traceback for each call that it cannot deliver, and
accepts calls at any rate. An attacker with a node's credentials chooses
methods, arguments and bodies.
"""

from collections.abc import Callable
import logging as python_logging
import threading
import time
from typing import Any

from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.controller import metrics

LOG = logging.getLogger(__name__)

# Burst of calls that a node may make, in seconds of its rate: a node that has
# just started fetches much.
BURST_S = 2.0
# Seconds between two log lines about a node's refused calls.
COMPLAINT_S = 10.0
# Log lines of oslo.messaging about messages, and the seconds that they count.
LINES_MAX, LINES_S = 20, 10.0
_LOGGERS = ('oslo_messaging.rpc.server',
            'oslo_messaging._drivers.amqpdriver',
            'oslo_messaging._drivers.impl_rabbit')
_NOT_SERVED = (oslo_messaging.rpc.dispatcher.NoSuchMethod,
               oslo_messaging.UnsupportedVersion)


class Rate:
    """Delays calls beyond a rate.

    It is shared by the calls of one node, so that a node only delays itself.
    """

    def __init__(self, per_second: float,
                 clock: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], None] = time.sleep) -> None:
        self._interval = 1 / per_second
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next = clock() - BURST_S

    def wait(self) -> bool:
        """Wait if necessary, and return whether it was."""
        with self._lock:
            now = self._clock()
            self._next = max(self._next, now - BURST_S) + self._interval
            delay = self._next - now
        if delay > 0:
            self._sleep(delay)
        return delay > 0


class Complaints:
    """Limits the log lines about a node's refused calls."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent_until = 0.0
        self.number = 0

    def are_due(self) -> bool:
        """Count a refusal, and return whether to log it."""
        self.number += 1
        if self._clock() < self._silent_until:
            return False
        self._silent_until = self._clock() + COMPLAINT_S
        return True


class Dispatcher:
    """Wraps a server's dispatcher, for all calls of one node.

    :param inner: an oslo_messaging.RPCDispatcher.
    """

    def __init__(self, host: str, inner: Any, rate: Rate,
                 complaints: Complaints, counted: metrics.Metrics) -> None:
        self._host = host
        self._inner = inner
        self._rate = rate
        self._complaints = complaints
        self._metrics = counted

    def dispatch(self, incoming: Any) -> Any:
        """Dispatch a call.

        :raises oslo_messaging.ExpectedException: the call failed. The caller
            receives that as the answer, and the server does not log it.
        """
        if self._rate.wait():
            self._metrics.delayed(self._host)
        # With a client time-out, oslo.messaging starts a thread that sends
        # heartbeats to the caller, for ever if the method does not exist.
        incoming.client_timeout = 0
        try:
            return self._inner.dispatch(incoming)
        except oslo_messaging.ExpectedException:
            raise
        except _NOT_SERVED as error:
            self._metrics.failed('not_served')
            if self._complaints.are_due():
                LOG.error('Node %s calls an unknown method (%s calls refused '
                          'in total): %.300s', self._host,
                          self._complaints.number, error)
            raise oslo_messaging.ExpectedException() from error
        except Exception as error:
            self._metrics.failed('unexpected')
            if self._complaints.are_due():
                LOG.exception('A call of node %s failed.', self._host)
            raise oslo_messaging.ExpectedException() from error


class FewLines(python_logging.Filter):
    """Passes at most LINES_MAX lines in LINES_S seconds. The number of those
    that were left out is logged before the next one that passes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._remaining = 0

    def filter(self, record: python_logging.LogRecord) -> bool:
        with self._lock:
            now = self._clock()
            left_out = max(0, -self._remaining)
            if is_next := now >= self._until:
                self._until, self._remaining = now + LINES_S, LINES_MAX
            self._remaining -= 1
            passes = self._remaining >= 0
        if is_next and left_out:
            LOG.warning('%s further log lines of %s about messages were left '
                        'out.', left_out, record.name)
        return passes


def limit_lines_about_messages() -> None:
    """Limit the lines of oslo.messaging, which logs each malformed body."""
    for name in _LOGGERS:
        logger = python_logging.getLogger(name)
        if not any(isinstance(line_filter, FewLines)
                   for line_filter in logger.filters):
            logger.addFilter(FewLines())

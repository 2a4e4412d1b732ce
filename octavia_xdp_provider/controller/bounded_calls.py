# SPDX-License-Identifier: Apache-2.0
"""What one node may make controllers do and log by its calls.

oslo.messaging logs each call that it cannot deliver with where it was raised,
and works on as many as come. Whoever has a node's credentials chooses methods,
arguments and bodies.
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

# Seconds of calls that a node may make at once before its rate counts: one
# that has just started asks for much.
BURST_S = 2.0
# Seconds between two lines of the log about what a node is refused.
COMPLAINT_S = 10.0
# Lines of oslo.messaging's about messages, in so many seconds.
LINES_MAX, LINES_S = 20, 10.0
_LOGGERS = ('oslo_messaging.rpc.server',
            'oslo_messaging._drivers.amqpdriver',
            'oslo_messaging._drivers.impl_rabbit')
_NOT_SERVED = (oslo_messaging.rpc.dispatcher.NoSuchMethod,
               oslo_messaging.UnsupportedVersion)


class Rate:
    """Lets so many callers by in a second; those beyond it wait.

    The others are those of the same node, so that a node slows down itself.
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
        """Whether the caller had to wait."""
        with self._lock:
            now = self._clock()
            self._next = max(self._next, now - BURST_S) + self._interval
            delay = self._next - now
        if delay > 0:
            self._sleep(delay)
        return delay > 0


class Complaints:
    """Whether another line about a node is due."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent_until = 0.0
        self.number = 0

    def are_due(self) -> bool:
        """Count a refusal; whether it is worth a line."""
        self.number += 1
        if self._clock() < self._silent_until:
            return False
        self._silent_until = self._clock() + COMPLAINT_S
        return True


class Dispatcher:
    """In front of a server's own, for all calls of one node.

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
        """:raises oslo_messaging.ExpectedException: it failed, which the
            caller is answered and the server does not log.
        """
        if self._rate.wait():
            self._metrics.delayed(self._host)
        # A caller that names a time gets a thread which sends signs of life;
        # where no method is found, for ever.
        incoming.client_timeout = 0
        try:
            return self._inner.dispatch(incoming)
        except oslo_messaging.ExpectedException:
            raise
        except _NOT_SERVED as error:
            self._metrics.failed('not_served')
            if self._complaints.are_due():
                LOG.error('Node %s calls what is not served (%s refused in '
                          'all): %.300s', self._host, self._complaints.number,
                          error)
            raise oslo_messaging.ExpectedException() from error
        except Exception as error:
            self._metrics.failed('unexpected')
            if self._complaints.are_due():
                LOG.exception('A call of node %s failed.', self._host)
            raise oslo_messaging.ExpectedException() from error


class FewLines(python_logging.Filter):
    """Lets LINES_MAX lines pass in LINES_S seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._left = 0

    def filter(self, record: python_logging.LogRecord) -> bool:
        with self._lock:
            now = self._clock()
            if now >= self._until:
                self._until, self._left = now + LINES_S, LINES_MAX
            self._left -= 1
            return self._left >= 0


def limit_lines_about_messages() -> None:
    """Of what is no call at all oslo.messaging logs each body."""
    for name in _LOGGERS:
        logger = python_logging.getLogger(name)
        if not any(isinstance(has, FewLines) for has in logger.filters):
            logger.addFilter(FewLines())

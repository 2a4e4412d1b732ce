# SPDX-License-Identifier: Apache-2.0
"""RPC calls with a time limit that holds even if the broker is down.

oslo.messaging's time-outs start only after it has connected, and the first
call of a process connects without a limit. Each call therefore runs in its
own thread, and the caller waits at most for its limit. An abandoned thread
ends when its connection succeeds or fails.

After a call without an answer, further calls fail at once while a background
thread pings the controller until it answers.
"""

from collections.abc import Callable
import threading
import time
from typing import Any
from typing import Protocol
from typing import TypeVar

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

# Seconds between two pings of a controller that did not answer.
PROBE_INTERVAL_S = 1.0
# Seconds for which an abandoned request is worth cancelling. Its deadline is
# earlier, and no controller executes it after that.
CANCEL_FOR_S = 120.0
# Concurrent calls of one process. More would only wait for the same peer.
CALLS_MAX = 256


class Unanswered(Exception):
    """The peer did not answer in time, or is known not to answer."""


class Peer(Protocol):
    """The called side. Every method raises the transport's exceptions."""

    def ping(self) -> Any:
        """Return if the controller answers and is able to work."""

    def cancel(self, request: str) -> Any:
        """Cancel a request."""


class _Call(threading.Thread):
    """Runs a function in a daemon thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(name='octavia-xdp call', daemon=True)
        self._function = function
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:  # within() raises it
            self.error = error
        finally:
            self.ended.set()


def within(limit_s: float, function: Callable[[], _T]) -> _T:
    """Run a function and return its result.

    :raises Unanswered: the function is not done after ``limit_s`` seconds.
        It continues in its thread, and its result is discarded.
    """
    call = _Call(function)
    call.start()
    if not call.ended.wait(limit_s):
        raise Unanswered(f'no answer within {limit_s:g} s')
    if call.error is not None:
        raise call.error
    result: _T = call.result
    return result


class BoundedCalls:
    """Calls of one peer that remember whether the peer answers.

    :param answers: exceptions that count as the peer's answer. Any other
        exception means that the peer was not reached: the libraries below
        oslo.messaging raise exceptions of many kinds.
    """

    def __init__(self, peer: Peer,
                 answers: tuple[type[Exception], ...]) -> None:
        self._peer = peer
        self._answers = answers
        self._lock = threading.Lock()
        self._pending = 0
        self._is_full = False
        self._problem: str | None = None
        self._prober: threading.Thread | None = None
        # Request → monotonic time at which its caller stopped waiting.
        self._abandoned: dict[str, float] = {}

    def check(self) -> None:
        """:raises Unanswered: the peer is known not to answer."""
        problem = self._problem
        if problem is not None:
            raise Unanswered(f'{problem}; it is asked in the background '
                             'until it answers')

    def call(self, function: Callable[[], Any], limit_s: float,
             request: str | None = None) -> Any:
        """Run a function that calls the peer and return its result.

        :param request: id of the request to cancel if there is no answer.
        :raises Unanswered: there is no answer within ``limit_s`` seconds.
        """
        self.check()
        with self._lock:
            if self._pending >= CALLS_MAX:
                self._log_full()
                raise Unanswered(f'{CALLS_MAX} calls wait for an answer')
            self._pending += 1
        try:
            return within(limit_s, function)
        except self._answers:
            raise
        except Unanswered as error:
            self._mark_unreachable(str(error), request)
            raise
        except Exception as error:
            reason = f'{type(error).__name__}: {error}'
            self._mark_unreachable(reason, request)
            raise Unanswered(reason) from error
        finally:
            with self._lock:
                self._pending -= 1
                if self._pending <= CALLS_MAX // 2:
                    self._is_full = False

    def _log_full(self) -> None:
        """Log once, until half of the calls have ended."""
        if not self._is_full:
            LOG.error('%s calls of the xdp provider wait for its controller: '
                      'further ones are refused until some have ended.',
                      CALLS_MAX)
        self._is_full = True

    def _mark_unreachable(self, reason: str, request: str | None) -> None:
        with self._lock:
            if request is not None:
                self._abandoned[request] = time.monotonic()
            if self._problem is None:
                LOG.error('The xdp provider\'s controller does not answer '
                          '(%s): calls fail at once until it does.', reason)
            self._problem = reason
            if self._prober is None:
                self._prober = threading.Thread(
                    target=self._probe, name='octavia-xdp probe',
                    daemon=True)
                self._prober.start()

    def _probe(self) -> None:
        """Ping the peer until it answers, then cancel abandoned requests."""
        while True:
            try:
                self._peer.ping()
                self._cancel_abandoned()
            except Exception as error:
                LOG.debug('The controller does not answer yet: %s', error)
                time.sleep(PROBE_INTERVAL_S)
                continue
            with self._lock:
                if self._abandoned:
                    continue
                self._problem = None
                self._prober = None
            LOG.info('The xdp provider\'s controller answers again.')
            return

    def _cancel_abandoned(self) -> None:
        for request, abandoned_at in list(self._abandoned.items()):
            if time.monotonic() - abandoned_at < CANCEL_FOR_S:
                self._peer.cancel(request)
            del self._abandoned[request]

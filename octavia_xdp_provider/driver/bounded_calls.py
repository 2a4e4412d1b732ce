# SPDX-License-Identifier: Apache-2.0
"""Calls that end in time, whatever the message broker does.

oslo.messaging's time-outs begin once it is connected: the first call of a
process connects for as long as it takes. So each call runs in a thread of
its own, for which the caller waits no longer than its limit. A thread that is
left behind ends when its connection comes about or fails.

After a call without an answer nobody is made to wait again: calls fail at
once while a thread in the background asks the controller, until it answers.
"""

from collections.abc import Callable
import threading
import time
from typing import Any
from typing import Protocol

from oslo_log import log as logging

LOG = logging.getLogger(__name__)

# Seconds between two questions whether the controller is back.
PROBE_INTERVAL_S = 1.0
# Seconds for which a request that nobody waits for is called off. It is
# carried out by nobody after its deadline, which is nearer.
CANCEL_FOR_S = 120.0
# Calls under way at once in one process. More wait for the same silence.
CALLS_MAX = 256


class Unanswered(Exception):
    """There was no answer in time, or none is to be expected."""


class Peer(Protocol):
    """Whom the calls go to. Every method raises what the transport does."""

    def ping(self) -> Any:
        """Return if the controller answers and could do something."""

    def cancel(self, request: str) -> Any:
        """Call a request off."""


class _Call(threading.Thread):
    """A function in a thread that ends with the process at the latest."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(name='octavia-xdp call', daemon=True)
        self._function = function
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:  # handed to whoever waits
            self.error = error
        finally:
            self.ended.set()


def within(limit_s: float, function: Callable[[], Any]) -> Any:
    """The result of a function, if it has one in time.

    :raises Unanswered: it is still at work, and goes on where nobody waits.
    """
    call = _Call(function)
    call.start()
    if not call.ended.wait(limit_s):
        raise Unanswered(f'no answer within {limit_s:g} s')
    if call.error is not None:
        raise call.error
    return call.result


class BoundedCalls:
    """Calls of one peer, with a memory of whether it answers.

    :param answers: exceptions that are the peer's answer. Any other one
        says that it could not be reached: libraries below oslo.messaging
        raise what they like.
    """

    def __init__(self, peer: Peer,
                 answers: tuple[type[Exception], ...]) -> None:
        self._peer = peer
        self._answers = answers
        self._lock = threading.Lock()
        self._under_way = 0
        self._away: str | None = None
        self._prober: threading.Thread | None = None
        # Request → when it was given up, in seconds of the monotonic clock.
        self._given_up: dict[str, float] = {}

    def check(self) -> None:
        """:raises Unanswered: the peer is known not to answer."""
        away = self._away
        if away is not None:
            raise Unanswered(f'{away}; it is asked in the background until '
                             'it answers')

    def call(self, function: Callable[[], Any], limit_s: float,
             request: str | None = None) -> Any:
        """The result of a function that calls the peer.

        :param request: what is to be called off if there is no answer.
        :raises Unanswered: there is none within ``limit_s``.
        """
        self.check()
        with self._lock:
            if self._under_way >= CALLS_MAX:
                raise Unanswered(f'{CALLS_MAX} calls wait for an answer')
            self._under_way += 1
        try:
            return within(limit_s, function)
        except self._answers:
            raise
        except Unanswered as error:
            self._is_away(str(error), request)
            raise
        except Exception as error:
            reason = f'{type(error).__name__}: {error}'
            self._is_away(reason, request)
            raise Unanswered(reason) from error
        finally:
            with self._lock:
                self._under_way -= 1

    def _is_away(self, reason: str, request: str | None) -> None:
        with self._lock:
            if request is not None:
                self._given_up[request] = time.monotonic()
            if self._away is None:
                LOG.error('The xdp provider\'s controller does not answer '
                          '(%s): calls fail at once until it does.', reason)
            self._away = reason
            if self._prober is None:
                self._prober = threading.Thread(
                    target=self._probe, name='octavia-xdp probe',
                    daemon=True)
                self._prober.start()

    def _probe(self) -> None:
        """Ask until there is an answer, and call off what was given up."""
        while True:
            try:
                self._peer.ping()
                self._call_off()
            except Exception as error:
                LOG.debug('The controller does not answer yet: %s', error)
                time.sleep(PROBE_INTERVAL_S)
                continue
            with self._lock:
                if self._given_up:
                    continue
                self._away = None
                self._prober = None
            LOG.info('The xdp provider\'s controller answers again.')
            return

    def _call_off(self) -> None:
        for request, since in list(self._given_up.items()):
            if time.monotonic() - since < CANCEL_FOR_S:
                self._peer.cancel(request)
            del self._given_up[request]

# SPDX-License-Identifier: Apache-2.0
"""Calls of octavia-driver-agent over its Unix sockets.

octavia-lib's DriverLibrary waits for the sockets in its constructor for up
to two minutes, reads an answer's length one byte at a time with 10 ms of
sleep after each, and reads from a closed connection for ever. This module
replaces one of its methods, the exchange of two messages; octavia-lib still
builds the messages and interprets the answers.

A message must never be sent in part: octavia-driver-agent would read from the
closed connection for ever, using a whole CPU. So each message is sent at once,
and the socket's buffer is large enough to hold it until the server reads it.

Messages go to the listeners that the provider agent has prepared
(preloaded_listeners.py), or else to octavia-driver-agent's own.
"""

from collections.abc import Iterator
import contextlib
import json
import socket
import struct
import time
from typing import Any

from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import driver_lib
from octavia_lib.api.drivers import exceptions
from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.controller.octavia import errors

LOG = logging.getLogger(__name__)

# Seconds to wait for the answer to a change; callers wait shorter (sender.py).
# Octavia's database aborts a waiting statement after 50 s by default
# (innodb_lock_wait_timeout), and octavia-driver-agent then answers.
ANSWER_LIMIT_S = 180.0

_LENGTH_DIGITS = 12
_SEND_BUFFER = 4 << 20

Message = dict[str, list[dict[str, Any]]]


class DriverAgent(driver_lib.DriverLibrary):  # type: ignore[misc]
    """A client of octavia-driver-agent. Thread-safe.

    All calls raise OctaviaUnavailable.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(status_socket=conf.controller.status_socket,
                         stats_socket=conf.controller.stats_socket,
                         get_socket=conf.controller.get_socket)
        self._timeout_s = conf.controller.driver_agent_timeout
        self._preloaded_status = conf.controller.preloaded_status_socket
        self._preloaded_stats = conf.controller.preloaded_stats_socket
        self._preloaded_get = conf.controller.preloaded_get_socket
        self._missing: set[str] = set()

    def set_statuses(self, message: Message) -> None:
        """Set statuses, waiting for up to ANSWER_LIMIT_S.

        :raises Rejected: a record could not be set. Those before it are set,
            in Octavia's order: members, monitors, pools, listeners, load
            balancers.
        """
        with _translated():
            self.update_loadbalancer_status(message)

    def set_statistics(self, listeners: list[dict[str, Any]]) -> None:
        """Set statistics of listeners."""
        with _translated():
            self.update_listener_statistics({'listeners': listeners})

    def load_balancer(self, load_balancer_id: str
                      ) -> data_models.LoadBalancer | None:
        """Return a committed load balancer as octavia-lib's object, or None.
        """
        with _translated():
            return self.get_loadbalancer(load_balancer_id)

    def _check_for_socket_ready(self, socket: str) -> None:
        """Do not wait, unlike the original: calls without a socket fail."""

    def _send(self, socket_path: str, data: Any) -> Any:
        limit = (self._timeout_s if socket_path == self.get_socket
                 else ANSWER_LIMIT_S)
        message = json.dumps(data).encode()
        deadline = time.monotonic() + limit
        text = self._send_preloaded(socket_path, message, deadline)
        if text is None:
            text = _exchange(socket_path, message, deadline)
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise ValueError('the answer is no object')
        if socket_path != self.get_socket and 'status_code' not in answer:
            raise ValueError('the answer has no status_code')
        return answer

    def _send_preloaded(self, own: str, message: bytes, deadline: float
                        ) -> bytes | None:
        """Return a preloaded listener's answer, or None without a listener.
        """
        path = {self.status_socket: self._preloaded_status,
                self.stats_socket: self._preloaded_stats,
                self.get_socket: self._preloaded_get}[own]
        if not path:
            return None
        try:
            answer = _exchange(path, message, deadline)
        except _NotConnected as error:
            # Nothing was sent, so octavia-driver-agent's own can be used. The
            # preloaded listener may still be starting.
            if path not in self._missing:
                LOG.info('No preloaded listener (%s): messages go to %s, '
                         'which takes longer.', error, own)
            self._missing.add(path)
            return None
        if path in self._missing:
            LOG.info('Messages go to the preloaded listener at %s.', path)
        self._missing.discard(path)
        return answer


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Translate octavia-lib's exceptions."""
    try:
        yield
    except (exceptions.UpdateStatusError,
            exceptions.UpdateStatisticsError) as error:
        # octavia-lib raises the same error for an exception that it caught
        # and for an error that octavia-driver-agent answered.
        caught = error.__context__
        if caught is None:
            raise errors.Rejected(
                f'octavia-driver-agent: {error.fault_string}',
                getattr(error, 'status_object_id', None)) from error
        raise _unavailable(caught) from error
    except exceptions.DriverError as error:
        raise _unavailable(error.__cause__ or error) from error


def _unavailable(error: BaseException) -> errors.OctaviaUnavailable:
    return errors.OctaviaUnavailable(
        f'octavia-driver-agent: {error or type(error).__name__}',
        maybe_done=getattr(error, 'maybe_done', False))


class _NoAnswer(OSError):
    """A message was sent, but its answer is missing or incomplete."""

    maybe_done = True


class _NotConnected(OSError):
    """No process listens at a socket, or access to it is denied."""


def _exchange(path: str, message: bytes, deadline: float) -> bytes:
    """Send a message and return the answer, each prefixed by its length.

    :param deadline: by time.monotonic().
    :raises OSError, ValueError: there is no valid answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        _connect(sock, path, deadline)
        sock.settimeout(_remaining_s(deadline))
        sock.sendall(b'%d\n%b' % (len(message), message))
        try:
            return _receive(sock, deadline)
        except TimeoutError as error:
            raise _NoAnswer('no answer') from error
        except ConnectionError as error:
            raise _NoAnswer(str(error)) from error


def _connect(sock: socket.socket, path: str, deadline: float) -> None:
    """Connect, waiting while the server's queue is full.

    A Unix socket with a Python time-out is refused at once if the queue is
    full. A blocking one waits for SO_SNDTIMEO.
    """
    seconds, fraction = divmod(_remaining_s(deadline), 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack(
        '@ll', int(seconds), int(fraction * 1e6)))
    try:
        sock.connect(path)
    except BlockingIOError as error:
        raise TimeoutError(f'{path}: no connection in time') from error
    except OSError as error:
        raise _NotConnected(f'{path}: {error.strerror}') from error


def _receive(sock: socket.socket, deadline: float) -> bytes:
    received = bytearray()
    length = None
    while length is None or len(received) < length:
        sock.settimeout(_remaining_s(deadline))
        part = sock.recv(1 << 16)
        if not part:
            raise ConnectionError('closed before the answer was complete')
        received += part
        if length is None:
            digits, newline, rest = received.partition(b'\n')
            if newline:
                length, received = _parse_length(bytes(digits)), rest
            elif len(digits) > _LENGTH_DIGITS:
                raise ValueError('the answer has no length')
    return bytes(received[:length])


def _parse_length(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _LENGTH_DIGITS:
        raise ValueError(f'the answer has the length {digits!r}')
    return int(digits)


def _remaining_s(deadline: float) -> float:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError('no answer in time')
    return remaining_s


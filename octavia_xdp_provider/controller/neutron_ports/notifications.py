# SPDX-License-Identifier: Apache-2.0
"""Receives Neutron's notifications as hints of changes.

They come from Neutron's own topic exchange through an exclusive queue, which
takes nothing from other consumers, ends with the connection, and drops its
oldest messages if they are not read. Changes whose message is lost are found
when members are looked up periodically.

oslo.messaging's listener is not used: its queues stay and grow without a
consumer, and it declares Neutron's exchange itself, which fails if that is
durable and this process's exchanges are not, or vice versa.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import json
import socket
import ssl
import threading
import time
from typing import Any
import urllib.parse
import uuid

import amqp
import kombu
from kombu import exceptions
from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.config import option_values

LOG = logging.getLogger(__name__)

QUEUE_PREFIX = 'octavia-xdp-notifications'
# Maximum length of the queue, which drops its oldest messages.
_WAITING_MAX = 10000
# oslo.messaging's priority of notifications about successful operations.
_PRIORITY = 'info'
# Seconds for one wait for messages, for connecting, and between two attempts.
_WAIT_S = 1.0
_CONNECT_S = 5.0
_RETRY_S = 5.0
_HEARTBEAT_S = 60
_MESSAGE_BYTES_MAX = 4 * 1024 * 1024
# Exceptions of a broker that is down or refuses.
_ERRORS = (amqp.exceptions.AMQPError, exceptions.KombuError, OSError)


@dataclasses.dataclass(frozen=True)
class Hint:
    """The objects that a message concerns. ``groups``: security groups and
    address groups, including the current or former groups of a port."""

    ports: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ports or self.addresses or self.groups)


def parse(body: bytes | str) -> Hint:
    """Return the Hint of a message, which is empty if it is irrelevant.

    :raises ValueError: the message is not a notification.
    """
    message = json.loads(body)
    # Drivers messagingv2 and messaging.
    if isinstance(message, dict) and 'oslo.message' in message:
        message = json.loads(message['oslo.message'])
    if not isinstance(message, dict) or not isinstance(
            message.get('event_type'), str):
        raise ValueError('no event_type')
    resource, _, rest = message['event_type'].partition('.')
    payload = message.get('payload')
    if not rest.endswith('.end') or not isinstance(payload, dict):
        return Hint()
    if resource == 'port':
        return _of_ports(payload)
    if resource in ('security_group', 'security_group_rule',
                    'address_group'):
        return Hint(groups=frozenset(_groups(resource, payload)))
    return Hint()


def _rows(resource: str, payload: dict[str, Any]
          ) -> Iterator[dict[str, Any]]:
    """Yield the payload's objects: one, or several created in bulk."""
    several = payload.get(f'{resource}s')
    for row in [payload.get(resource),
                *(several if isinstance(several, list) else ())]:
        if isinstance(row, dict):
            yield row


def _of_ports(payload: dict[str, Any]) -> Hint:
    rows = list(_rows('port', payload))
    return Hint(
        frozenset(_texts([payload.get('port_id'),
                          *(row.get('id') for row in rows)])),
        frozenset(_texts(
            fixed.get('ip_address') for row in rows
            for fixed in _list(row.get('fixed_ips'))
            if isinstance(fixed, dict))),
        frozenset(_texts(group for row in rows
                         for group in _list(row.get('security_groups')))))


def _groups(resource: str, payload: dict[str, Any]) -> Iterator[str]:
    name = 'security_group_id' if resource == 'security_group_rule' else 'id'
    yield from _texts([payload.get(f'{resource}_id')])
    for row in _rows(resource, payload):
        yield from _texts([row.get(name)])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(values: Any) -> Iterator[str]:
    return (value for value in values if isinstance(value, str))


class Listener:
    """Receives notifications; ``run`` returns after ``stop``.

    :param handle: called with each Hint, in the thread of ``run``.
    :param is_wanted: whether to be connected at all.
    :param come_round: see Loops.watch.
    :raises ConfigurationError: the URL is missing or unusable.
    """

    def __init__(self, conf: cfg.ConfigOpts, handle: Callable[[Hint], None],
                 is_wanted: Callable[[], bool],
                 come_round: Callable[[], None] = lambda: None) -> None:
        options = conf.zero_touch
        self._exchange = options.notification_exchange
        self._topics = options.notification_topics
        self._handle, self._is_wanted = handle, is_wanted
        self._come_round = come_round
        self._stop = threading.Event()
        self._name = f'{QUEUE_PREFIX}.{socket.gethostname()}'
        self._arguments = _connection_arguments(conf)
        self._failing = False
        self._malformed = False

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Receive notifications until ``stop`` is called."""
        while not self._stop.is_set():
            self._come_round()
            if not self._is_wanted():
                self._stop.wait(_WAIT_S)
                continue
            try:
                with kombu.Connection(**self._arguments) as connection:
                    self._listen(connection)
            except Exception as error:
                if not self._failing:
                    LOG.warning(
                        'Neutron\'s notifications cannot be received, and '
                        'changes are only noticed by polling its API: %s',
                        str(error) or type(error).__name__,
                        exc_info=not isinstance(error, _ERRORS))
                self._failing = True
                self._stop.wait(_RETRY_S)

    def _listen(self, connection: Any) -> None:
        connection.connect()
        channel = connection.channel()
        queue = kombu.Queue(
            f'{self._name}.{uuid.uuid4().hex[:8]}', channel=channel,
            durable=False, exclusive=True, auto_delete=True,
            queue_arguments={'x-max-length': _WAITING_MAX})
        queue.queue_declare()
        for topic in self._topics:
            queue.bind_to(self._exchange, f'{topic}.{_PRIORITY}')
        with kombu.Consumer(channel, [queue], no_ack=True, auto_declare=False,
                            on_message=self._take):
            LOG.info('Receiving Neutron\'s notifications%s.',
                     ' again' if self._failing else '')
            self._failing = False
            beat_at = 0.0
            while not self._stop.is_set() and self._is_wanted():
                self._come_round()
                if time.monotonic() >= beat_at:
                    connection.heartbeat_check()
                    beat_at = time.monotonic() + _HEARTBEAT_S / 4
                with contextlib.suppress(TimeoutError):
                    connection.drain_events(timeout=_WAIT_S)

    def _take(self, message: Any) -> None:
        try:
            if len(message.body) > _MESSAGE_BYTES_MAX:
                raise ValueError(f'it has {len(message.body)} bytes')
            hint = parse(message.body)
        except (ValueError, TypeError, RecursionError) as error:
            if not self._malformed:
                LOG.warning('Ignoring messages of the exchange %s that are no '
                            'notifications (%s).', self._exchange, error)
            self._malformed = True
            return
        if hint:
            self._handle(hint)


def _connection_arguments(conf: cfg.ConfigOpts) -> dict[str, Any]:
    """Return the arguments of kombu.Connection.

    :raises ConfigurationError: the URL is unusable.
    """
    try:
        url = oslo_messaging.TransportURL.parse(
            conf, conf.zero_touch.notification_transport_url)
    except (oslo_messaging.InvalidTransportURL, ValueError) as error:
        raise _unusable(str(error)) from error
    if url.transport != 'rabbit' or not url.hosts:
        raise _unusable('only RabbitMQ (rabbit://…) is supported')
    ca_file = conf.zero_touch.notification_ca_file
    return {'hostname': ';'.join(_server(host, url.virtual_host)
                                 for host in url.hosts),
            'connect_timeout': _CONNECT_S, 'heartbeat': _HEARTBEAT_S,
            'ssl': {'ca_certs': ca_file, 'cert_reqs': ssl.CERT_REQUIRED}
            if ca_file else False}


def _server(host: Any, virtual_host: str | None) -> str:
    """Return the URL of one broker in kombu's form."""
    def quoted(text: str | None) -> str:
        return urllib.parse.quote(text or '', safe='')
    name = host.hostname if ':' not in host.hostname else f'[{host.hostname}]'
    return (f'amqp://{quoted(host.username)}:{quoted(host.password)}@{name}:'
            f'{host.port or 5672}/{quoted(virtual_host)}')


def _unusable(why: str) -> option_values.ConfigurationError:
    return option_values.ConfigurationError(
        f'[zero_touch] notification_transport_url: {why}; without it, '
        'changes are only noticed by polling Neutron\'s API')

# SPDX-License-Identifier: Apache-2.0
"""Neutron's notifications: who might have changed, and nothing else.

They come from Neutron's own topic exchange, by a queue that belongs to this
connection alone: it takes nothing from other consumers, ends with the
connection, and drops its oldest messages where they are not read. A message
is a hint. What is lost is seen when Neutron is asked in turns.

oslo.messaging's listener is not used: its queues stay when nobody reads them
any more and grow, and it declares Neutron's exchange itself, which fails
where that is durable and ours are not, or the other way round.
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

from octavia_xdp_provider.common import option_values

LOG = logging.getLogger(__name__)

QUEUE_PREFIX = 'octavia-xdp-notifications'
# Messages that wait in the queue at most; the oldest give way.
_WAITING_MAX = 10000
# Those of oslo.messaging that say what was done, not what failed.
_PRIORITY = 'info'
# Seconds that a message is waited for in one go, a connection may take, and
# are between two attempts.
_WAIT_S = 1.0
_CONNECT_S = 5.0
_RETRY_S = 5.0
_HEARTBEAT_S = 60
_MESSAGE_BYTES_MAX = 4 * 1024 * 1024
# Of a broker that is away, or refuses.
_ERRORS = (amqp.exceptions.AMQPError, exceptions.KombuError, OSError)


@dataclasses.dataclass(frozen=True)
class Hint:
    """What a message is about. ``groups``: security groups and address
    groups, also those that a port is or was in."""

    ports: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ports or self.addresses or self.groups)


def parse(body: bytes | str) -> Hint:
    """Of a message of Neutron's; an empty one if it is not of interest.

    :raises ValueError: it is no notification.
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
    """One, or several that were made by one request."""
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
    """Hears notifications while somebody wants them; ``run`` until ``stop``.

    :param hear: called with each Hint, in the thread that runs.
    :param is_wanted: whether to be connected at all.
    :param come_round: see Loops.watch.
    :raises ConfigurationError: the URL cannot be used, or there is none.
    """

    def __init__(self, conf: cfg.ConfigOpts, hear: Callable[[Hint], None],
                 is_wanted: Callable[[], bool],
                 come_round: Callable[[], None] = lambda: None) -> None:
        options = conf.zero_touch
        self._exchange = options.notification_exchange
        self._topics = options.notification_topics
        self._hear, self._is_wanted = hear, is_wanted
        self._come_round = come_round
        self._stop = threading.Event()
        self._name = f'{QUEUE_PREFIX}.{socket.gethostname()}'
        self._arguments = _connection_arguments(conf)
        self._failing = False
        self._malformed = False

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Until ``stop`` is called."""
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
                        'Neutron\'s notifications are not heard, and its API '
                        'is asked in turns alone: %s',
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
            LOG.info('Neutron\'s notifications are heard%s.',
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
                LOG.warning('A message of the exchange %s is no notification '
                            '(%s); such are left out.', self._exchange, error)
            self._malformed = True
            return
        if hint:
            self._hear(hint)


def _connection_arguments(conf: cfg.ConfigOpts) -> dict[str, Any]:
    """Of kombu.Connection.

    :raises ConfigurationError: the URL cannot be used.
    """
    try:
        url = oslo_messaging.TransportURL.parse(
            conf, conf.zero_touch.notification_transport_url)
    except (oslo_messaging.InvalidTransportURL, ValueError) as error:
        raise _unusable(str(error)) from error
    if url.transport != 'rabbit' or not url.hosts:
        raise _unusable('only RabbitMQ\'s (rabbit://…) can be listened to')
    ca_file = conf.zero_touch.notification_ca_file
    return {'hostname': ';'.join(_server(one, url.virtual_host)
                                 for one in url.hosts),
            'connect_timeout': _CONNECT_S, 'heartbeat': _HEARTBEAT_S,
            'ssl': {'ca_certs': ca_file, 'cert_reqs': ssl.CERT_REQUIRED}
            if ca_file else False}


def _server(host: Any, virtual_host: str | None) -> str:
    """The URL of one broker, as kombu has it."""
    def quoted(text: str | None) -> str:
        return urllib.parse.quote(text or '', safe='')
    name = host.hostname if ':' not in host.hostname else f'[{host.hostname}]'
    return (f'amqp://{quoted(host.username)}:{quoted(host.password)}@{name}:'
            f'{host.port or 5672}/{quoted(virtual_host)}')


def _unusable(why: str) -> option_values.ConfigurationError:
    return option_values.ConfigurationError(
        f'[zero_touch] notification_transport_url: {why}; leave it out, and '
        'Neutron is asked in turns alone')

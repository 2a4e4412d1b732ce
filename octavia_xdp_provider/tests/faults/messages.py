# SPDX-License-Identifier: Apache-2.0
"""Each message of the broker comes a second time, later than others.

A queue gets a copy of every call and notification, of the driver and of all
nodes. Each copy goes back to where it was sent, some seconds later, with an
identity of its own: oslo.messaging drops what it has seen already, and it is
the controllers and agents who shall not mind.
"""

import contextlib
import heapq
import itertools
import json
import random
import threading
import time
import uuid

import kombu

from lab import namespaces
from lab import paths
from lab.control import rabbitmq
from lab.fabric import topology
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import broker

# Seconds by which a message comes again, at most: longer than a pass, and
# than the time between two reports.
LATE_S = 8
_AGAIN = 'octavia-xdp-again'
_TAP_S = 0.2


class Again:
    """From ``start`` to ``stop``.

    :ivar count: how many messages have come again.
    """

    def __init__(self, lab):
        self._lab = lab
        self._stopping = threading.Event()
        self._threads = []
        self.count = 0

    def start(self):
        for vhost in (broker.CONTROL_VHOST, *(
                broker.node_vhost(node) for node in topology.NODES)):
            thread = threading.Thread(target=self._run, args=(vhost,))
            thread.start()
            self._threads.append(thread)

    def stop(self):
        """What waits is dropped."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, vhost):
        url = rabbitmq.url(self._lab).replace('rabbit://', 'amqp://') + vhost
        with (namespaces.inside(self._lab, paths.CONTROL),
              kombu.Connection(url) as connection):
            channel = connection.channel()
            exchange = kombu.Exchange(rpc.EXCHANGE, 'topic', passive=True,
                                      durable=False, auto_delete=False)
            queue = kombu.Queue(f'again-{uuid.uuid4().hex}', exchange, '#',
                                durable=False, auto_delete=True,
                                exclusive=True)
            waiting, numbers = [], itertools.count()

            def took(message):
                if _AGAIN not in message.headers:
                    heapq.heappush(waiting, (
                        time.monotonic() + random.uniform(0, LATE_S),
                        next(numbers), message))
            consumer = kombu.Consumer(channel, [queue], on_message=took,
                                      no_ack=True)
            with consumer, connection.Producer(channel) as producer:
                while not self._stopping.is_set():
                    with contextlib.suppress(TimeoutError):
                        connection.drain_events(timeout=_TAP_S)
                    while waiting and waiting[0][0] < time.monotonic():
                        self._send(producer, heapq.heappop(waiting)[2])

    def _send(self, producer, message):
        body = json.loads(message.body)
        inner = json.loads(body['oslo.message'])
        inner['_unique_id'] = uuid.uuid4().hex
        body['oslo.message'] = json.dumps(inner)
        producer.publish(
            json.dumps(body), exchange=rpc.EXCHANGE,
            routing_key=message.delivery_info['routing_key'],
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers={**message.headers, _AGAIN: '1'})
        self.count += 1

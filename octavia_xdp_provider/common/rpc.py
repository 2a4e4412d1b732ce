# SPDX-License-Identifier: Apache-2.0
"""The three interfaces between driver, controller and nodes.

========== ============ =================================================
interface  server       methods
========== ============ =================================================
gateway    controller   ``change(change)`` → ``{"generation": n}`` or
                        ``{"refused": {…}}`` / ``{"conflict": text}``
nodes      controller   ``fetch(host, known)`` → what differs;
                        ``report(host, report)``
bell       each node    ``changed()``, a cast without content: fetch now
========== ============ =================================================

All payloads are plain JSON. A message that waits in a queue for longer than
its caller does is dropped by the broker (oslo.messaging gives calls their
time-out as time to live), so that a request which the API has given up on
is not carried out minutes later.
"""

import oslo_messaging

CONTROLLER_TOPIC = 'octavia-xdp-controller'
NODE_TOPIC = 'octavia-xdp-agent'

GATEWAY_NAMESPACE = 'gateway'
NODES_NAMESPACE = 'nodes'
BELL_NAMESPACE = 'bell'
VERSION = '1.0'

TRANSPORT_ERRORS = (oslo_messaging.MessagingException, OSError)


def transport(conf):
    """The RPC transport that ``[DEFAULT] transport_url`` names.

    :raises oslo_messaging.InvalidTransportURL: it cannot be used.
    """
    return oslo_messaging.get_rpc_transport(conf)


def _client(rpc_transport, topic, namespace, **target):
    return oslo_messaging.get_rpc_client(
        rpc_transport,
        oslo_messaging.Target(topic=topic, namespace=namespace,
                              version=VERSION, **target))


class GatewayClient:
    """The driver's way to the controller."""

    def __init__(self, rpc_transport, timeout):
        self._client = _client(rpc_transport, CONTROLLER_TOPIC,
                               GATEWAY_NAMESPACE)
        self._timeout = timeout

    def change(self, change):
        return self._client.prepare(timeout=self._timeout).call(
            {}, 'change', change=change)


class NodesClient:
    """A node's way to the controller."""

    def __init__(self, rpc_transport, timeout=10):
        self._client = _client(rpc_transport, CONTROLLER_TOPIC,
                               NODES_NAMESPACE)
        self._timeout = timeout

    def fetch(self, host, known):
        return self._client.prepare(timeout=self._timeout).call(
            {}, 'fetch', host=host, known=known)

    def report(self, host, report):
        return self._client.prepare(timeout=self._timeout).call(
            {}, 'report', host=host, report=report)


class BellClient:
    """The controller's way to wake a node. A lost bell does no harm."""

    def __init__(self, rpc_transport):
        self._client = _client(rpc_transport, NODE_TOPIC, BELL_NAMESPACE)

    def ring(self, host):
        self._client.prepare(server=host).cast({}, 'changed')


def server(rpc_transport, topic, host, endpoints):
    """An RPC server with threads, not yet started."""
    return oslo_messaging.get_rpc_server(
        rpc_transport, oslo_messaging.Target(topic=topic, server=host),
        endpoints, executor='threading')

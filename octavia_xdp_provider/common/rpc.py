# SPDX-License-Identifier: Apache-2.0
"""The three interfaces between driver, controller and nodes.

========== ============ =================================================
interface  server       methods
========== ============ =================================================
driver     controller   ``change(change)`` → ``{"generation": n}`` or
                        ``{"refused": {…}}`` / ``{"conflict": text}``
nodes      controller   ``fetch(host, known)`` → what differs;
                        ``report(host, report)``
wakeup     each node    ``changed()``, a cast without content: fetch now
========== ============ =================================================

All payloads are plain JSON. A message that waits in a queue for longer than
its caller does is dropped by the broker (oslo.messaging gives calls their
time-out as time to live), so that a request which the API has given up on
is not carried out minutes later.
"""

import importlib
from typing import Any
from typing import cast

from oslo_config import cfg
import oslo_messaging

from octavia_xdp_provider.common import changes
from octavia_xdp_provider.common import messages

# Named in every target: the default is whatever the process has made of it,
# and octavia-api makes it "octavia".
EXCHANGE = 'octavia-xdp'
CONTROLLER_TOPIC = 'octavia-xdp-controller'
NODE_TOPIC = 'octavia-xdp-agent'

DRIVER_NAMESPACE = 'driver'
NODES_NAMESPACE = 'nodes'
WAKEUP_NAMESPACE = 'wakeup'
VERSION = '1.0'

# oslo.messaging registers these groups on the global ConfigOpts only, and
# then looks for them on the one that it was given: module → group.
_STRAY_GROUPS = {'oslo_messaging._metrics.client': 'oslo_messaging_metrics',
                 'oslo_messaging._tracing.client': 'oslo_messaging_tracing'}

Transport = Any  # oslo_messaging.transport.Transport

TRANSPORT_ERRORS = (oslo_messaging.MessagingException, OSError)


def transport(conf: cfg.ConfigOpts) -> Transport:
    """The RPC transport that ``[DEFAULT] transport_url`` names.

    :raises oslo_messaging.InvalidTransportURL: it cannot be used.
    """
    for module, group in _STRAY_GROUPS.items():
        try:
            options = getattr(importlib.import_module(module), group)
        except (ImportError, AttributeError):
            continue  # a release without them
        conf.register_opts(options, group=group)
    return oslo_messaging.get_rpc_transport(conf)


def _client(rpc_transport: Transport, topic: str, namespace: str) -> Any:
    return oslo_messaging.get_rpc_client(
        rpc_transport,
        oslo_messaging.Target(exchange=EXCHANGE, topic=topic,
                              namespace=namespace, version=VERSION))


class DriverClient:
    """The driver's calls of the controller."""

    def __init__(self, rpc_transport: Transport, timeout: float) -> None:
        self._client = _client(rpc_transport, CONTROLLER_TOPIC,
                               DRIVER_NAMESPACE)
        self._timeout = timeout

    def change(self, change: changes.Change) -> messages.ChangeAnswer:
        return cast(messages.ChangeAnswer, self._client.prepare(
            timeout=self._timeout).call({}, 'change', change=change))


class NodesClient:
    """A node's calls of the controller."""

    def __init__(self, rpc_transport: Transport,
                 timeout: float = 10) -> None:
        self._client = _client(rpc_transport, CONTROLLER_TOPIC,
                               NODES_NAMESPACE)
        self._timeout = timeout

    def fetch(self, host: str, known: dict[str, int]
              ) -> messages.FetchAnswer:
        return cast(messages.FetchAnswer, self._client.prepare(
            timeout=self._timeout).call({}, 'fetch', host=host, known=known))

    def report(self, host: str, report: messages.Report) -> None:
        self._client.prepare(timeout=self._timeout).call(
            {}, 'report', host=host, report=report)


class WakeupClient:
    """Wakes nodes up. A lost notification does no harm: nodes also ask
    by themselves."""

    def __init__(self, rpc_transport: Transport) -> None:
        self._client = _client(rpc_transport, NODE_TOPIC, WAKEUP_NAMESPACE)

    def notify(self, host: str) -> None:
        self._client.prepare(server=host).cast({}, 'changed')


def server(rpc_transport: Transport, topic: str, host: str,
           endpoints: list[Any]) -> Any:
    """An RPC server with threads, not yet started."""
    return oslo_messaging.get_rpc_server(
        rpc_transport,
        oslo_messaging.Target(exchange=EXCHANGE, topic=topic, server=host),
        endpoints, executor='threading')

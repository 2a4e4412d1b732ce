# SPDX-License-Identifier: Apache-2.0
"""The three interfaces between driver, controller and nodes.

========== ============ =================================================
interface  server       methods
========== ============ =================================================
driver     controller   ``change(change, request, deadline, reports_end)`` →
                        messages.ChangeAnswer; ``ended(request,
                        committed)``, a cast; ``cancel(request)``;
                        ``ping()`` → the database's time
nodes      controller   ``fetch(host, since, after)`` → a page of what is
                        different since a generation;
                        ``compare(host, after)`` → a page of generations;
                        ``documents(host, ids)``;
                        ``report(host, epoch, seq, report)``;
                        ``nat_peers(host)`` → messages.NatPeersAnswer;
                        ``history(host, after, ids)`` → a page of the pools
                        whose members have changed, history.Answer;
                        of proxy nodes: ``bundles(host, names)``,
                        ``tickets(host, ids)`` → secrets, sealed for the node
heartbeat  controller   ``heartbeat(host)``, a cast on a topic of its own,
                        so that it never waits behind anything heavy
wakeup     each node    ``changed(since, page)``, a cast: what is different
                        since a generation, as a fetch would give it; or
                        without content: fetch now
========== ============ =================================================

All have version 1.0, the first one. A controller serves the versions of the
drivers and nodes of earlier releases, so that controllers are upgraded first
and the others one by one: a new argument or method raises the minor version,
and clients that do not use it are served as before. A server refuses a
version that it does not know; with ``[upgrade_levels]`` drivers and nodes use
an older one if they are upgraded before the controllers.

All payloads are plain JSON. The broker drops a message that waits in a queue
for longer than its caller (oslo.messaging sets the time-out of a call as time
to live), but not one that a controller has already taken from the queue: each
change has a deadline in the database's time, after which it is not stored.
"""

import importlib
from typing import Any
from typing import cast

from oslo_config import cfg
import oslo_messaging

from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import history as histories
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import queue_names

EXCHANGE = queue_names.EXCHANGE
CONTROLLER_TOPIC = 'octavia-xdp-controller'
HEARTBEAT_TOPIC = 'octavia-xdp-heartbeat'
NODE_TOPIC = queue_names.NODE_TOPIC

DRIVER_NAMESPACE = 'driver'
NODES_NAMESPACE = 'nodes'
WAKEUP_NAMESPACE = 'wakeup'
HEARTBEAT_NAMESPACE = 'heartbeat'
VERSION = '1.0'
# Versions that a driver or a node can use, oldest first: see [upgrade_levels].
DRIVER_VERSIONS = (VERSION,)
NODES_VERSIONS = (VERSION,)
DRIVER_VERSION = DRIVER_VERSIONS[-1]
NODES_VERSION = NODES_VERSIONS[-1]

# Between two attempts to reach the broker while a caller waits for it;
# oslo.messaging's default is 30 s.
RECONNECT_MAX_S = 2

# Calls that a server processes concurrently, and that it prefetches from the
# broker; other servers can take the rest. oslo.messaging would use 64 threads
# and prefetch everything.
THREADS = 8
PREFETCHED = 16

# Longest time that a server waits for a message in one go, and so for which
# stopping it takes.
SERVER_WAIT_S = 2.0
_SHORTEST_WAIT = 'ACK_REQUEUE_EVERY_SECONDS_MIN'

# Module → group of options that oslo.messaging registers on the global
# ConfigOpts only, but reads from the ConfigOpts that it was given.
_STRAY_GROUPS = {'oslo_messaging._metrics.client': 'oslo_messaging_metrics',
                 'oslo_messaging._tracing.client': 'oslo_messaging_tracing'}

Transport = Any  # oslo_messaging.transport.Transport

TRANSPORT_ERRORS = (oslo_messaging.MessagingException, OSError)


def transport(conf: cfg.ConfigOpts, reconnect_max_s: int | None = None,
              url: str | None = None, host: str | None = None) -> Transport:
    """Return the RPC transport of ``[DEFAULT] transport_url``.

    :param url: replaces that option.
    :param host: of an LB node or hypervisor, whose queue names must match its
        permissions.
    :param reconnect_max_s: seconds between two attempts to reach RabbitMQ,
        unless configured otherwise.
    :raises oslo_messaging.InvalidTransportURL: the URL is invalid.
    """
    for module, group in _STRAY_GROUPS.items():
        try:
            options = getattr(importlib.import_module(module), group)
        except (ImportError, AttributeError):
            continue  # this release does not have them
        conf.register_opts(options, group=group)
    if host is not None:
        queue_names.use(conf, url, host)
    result = oslo_messaging.get_rpc_transport(conf, url=url)
    if 'oslo_messaging_rabbit' in conf:
        # Connections, which are made later, read these.
        conf.set_default('rabbit_qos_prefetch_count', PREFETCHED,
                         group='oslo_messaging_rabbit')
        if reconnect_max_s is not None:
            conf.set_default('rabbit_interval_max', reconnect_max_s,
                             group='oslo_messaging_rabbit')
    return result


def is_unsupported_version(error: Exception) -> bool:
    """Return whether the peer does not support an interface's version."""
    return _remote_type(error) == 'UnsupportedVersion'


def pin(option: str, versions: tuple[str, ...], where: str) -> str:
    """Describe what to do until a controller that does not support a version
    is upgraded."""
    older = ' or '.join(reversed(versions[:-1]))
    return (f'Until it is upgraded, set [upgrade_levels] {option} = {older} '
            f'on this {where}' if older else 'Upgrade it first')


def is_refused(error: Exception) -> bool:
    """Return whether the peer refuses the call's arguments."""
    return _remote_type(error) == 'Refused'


def _remote_type(error: Exception) -> str:
    """Return the type's name of the peer's exception; some transports raise
    the exception itself."""
    return str(getattr(error, 'exc_type', None) or type(error).__name__)


def client(rpc_transport: Transport, topic: str, namespace: str,
           version: str = VERSION) -> Any:
    return oslo_messaging.get_rpc_client(
        rpc_transport,
        oslo_messaging.Target(exchange=EXCHANGE, topic=topic,
                              namespace=namespace, version=version))


class DriverClient:
    """The driver's calls to the controller. ``timeout_s``: for the answer,
    once the broker is connected.

    :param version: of the interface.
    """

    def __init__(self, rpc_transport: Transport,
                 version: str = DRIVER_VERSION) -> None:
        self._client = client(rpc_transport, CONTROLLER_TOPIC,
                              DRIVER_NAMESPACE, version)

    def _call(self, timeout_s: float, method: str, **arguments: Any) -> Any:
        return self._client.prepare(timeout=timeout_s).call(
            {}, method, **arguments)

    def change(self, change: changes.Change, request: str, deadline: float,
               timeout_s: float, reports_end: bool = False
               ) -> messages.ChangeAnswer:
        """:param request: a UUID, the same if the call is repeated.

        :param deadline: in the database's time, seconds since the epoch; a
            later call has no effect.
        :param reports_end: whether ``ended`` follows, unless this process
            dies.
        """
        return cast(messages.ChangeAnswer, self._call(
            timeout_s, 'change', change=change, request=request,
            deadline=deadline, reports_end=reports_end))

    def ended(self, request: str, committed: bool) -> None:
        """Report that Octavia's transaction around a change has ended. A lost
        message does no harm: the controller also asks Octavia."""
        self._client.cast({}, 'ended', request=request, committed=committed)

    def cancel(self, request: str, timeout_s: float) -> None:
        """Cancel a change that Octavia has not committed, even if it arrives
        later than this call."""
        self._call(timeout_s, 'cancel', request=request)

    def ping(self, timeout_s: float) -> float:
        """Return the database's time, in seconds since the epoch."""
        return float(self._call(timeout_s, 'ping')['now'])


class NodesClient:
    """A node's calls to the controller."""

    def __init__(self, rpc_transport: Transport, timeout: float = 10,
                 version: str = NODES_VERSION) -> None:
        self._client = client(rpc_transport, CONTROLLER_TOPIC,
                              NODES_NAMESPACE, version).prepare(
                                   timeout=timeout)

    def fetch(self, host: str, since: int, after: str | None = None
              ) -> messages.FetchAnswer:
        return cast(messages.FetchAnswer, self._client.call(
            {}, 'fetch', host=host, since=since, after=after))

    def nat_peers(self, host: str) -> messages.NatPeersAnswer:
        return cast(messages.NatPeersAnswer, self._client.call(
            {}, 'nat_peers', host=host))

    def history(self, host: str, after: str | None = None,
                ids: list[str] | None = None) -> histories.Answer:
        return cast(histories.Answer, self._client.call(
            {}, 'history', host=host, after=after, ids=ids))

    def compare(self, host: str, after: str | None = None
                ) -> messages.CompareAnswer:
        return cast(messages.CompareAnswer, self._client.call(
            {}, 'compare', host=host, after=after))

    def documents(self, host: str, ids: list[str]) -> list[messages.Entry]:
        return cast(list[messages.Entry], self._client.call(
            {}, 'documents', host=host, ids=ids))

    def report(self, host: str, epoch: int, seq: int,
               report: messages.Report) -> messages.ReportAnswer:
        return cast(messages.ReportAnswer, self._client.call(
            {}, 'report', host=host, epoch=epoch, seq=seq, report=report))


class SecretsClient:
    """A proxy node's calls for secrets, in the nodes' interface."""

    def __init__(self, rpc_transport: Transport, timeout: float = 10,
                 version: str = NODES_VERSION) -> None:
        self._client = client(rpc_transport, CONTROLLER_TOPIC,
                              NODES_NAMESPACE, version).prepare(
                                  timeout=timeout)

    def bundles(self, host: str, names: list[str]) -> messages.BundlesAnswer:
        return cast(messages.BundlesAnswer, self._client.call(
            {}, 'bundles', host=host, names=names))

    def tickets(self, host: str, ids: list[str]) -> messages.TicketsAnswer:
        return cast(messages.TicketsAnswer, self._client.call(
            {}, 'tickets', host=host, ids=ids))


class HeartbeatClient:
    """A node's sign of life."""

    def __init__(self, rpc_transport: Transport) -> None:
        self._client = client(rpc_transport, HEARTBEAT_TOPIC,
                              HEARTBEAT_NAMESPACE)

    def heartbeat(self, host: str) -> None:
        self._client.cast({}, 'heartbeat', host=host)


class WakeupClient:
    """Wakes nodes up. A lost notification does no harm: nodes also fetch
    periodically."""

    def __init__(self, rpc_transport: Transport) -> None:
        self._client = client(rpc_transport, NODE_TOPIC, WAKEUP_NAMESPACE)

    def notify(self, host: str, since: int | None = None,
               page: messages.FetchAnswer | None = None) -> None:
        """:param since: generation since which the page has all changes.

        :param page: None: the node must fetch.
        """
        self._client.prepare(server=host).cast(
            {}, 'changed', since=since, page=page)


def _poll_calmly() -> None:
    """Make servers wait for the next message in one go.

    After each message oslo.messaging waits for 1, 2, 4 … ms in turn, up to 5
    s, to process late acknowledgements in between; RPC servers acknowledge
    immediately. With a server for each of 50 nodes these waits cost more than
    the messages.
    """
    module = importlib.import_module('oslo_messaging._drivers.amqpdriver')
    if hasattr(module, _SHORTEST_WAIT):
        setattr(module, _SHORTEST_WAIT, SERVER_WAIT_S)


def server(rpc_transport: Transport, topic: str, host: str,
           endpoints: list[Any]) -> Any:
    """Return an RPC server with threads, not yet started."""
    _poll_calmly()
    result = oslo_messaging.get_rpc_server(
        rpc_transport,
        oslo_messaging.Target(exchange=EXCHANGE, topic=topic, server=host),
        endpoints, executor='threading')
    rpc_transport.conf.set_default('executor_thread_pool_size', THREADS)
    return result

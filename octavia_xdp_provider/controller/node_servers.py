# SPDX-License-Identifier: Apache-2.0
"""One RPC server for each LB node, in the node's own virtual host.

Messages in a node's virtual host were sent with the node's credentials, so
that the virtual host identifies the sender (controller/broker.py). A call that
names another host is refused.

Each node has its own threads and rate limit here: a node that floods its
virtual host, or whose virtual host is missing, delays no other.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterable
import functools
import inspect
import threading
import time
from typing import Any
import urllib.parse

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging
import prometheus_client

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import bounded_calls
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller import metrics

LOG = logging.getLogger(__name__)

# Seconds between two reads of the registered nodes.
LOOK_S = 1.0
# Seconds from the failure of a node's server to the next attempt.
RETRY_S = 5.0
# Messages queued for one node; beyond that the oldest is lost.
MESSAGES_MAX = 32


class NodeServers:
    """Serves the registered nodes, or hypervisors.

    :param registered: returns their hosts; called every LOOK_S seconds.
    :param topics: topic → endpoints, whose methods have the arguments
        (context, host, …).
    :param vhost: returns the virtual host of a host.
    :param wakeup: creates a client with notify(host) for a transport.
    :param page: returns a host's further arguments of notify, or None.
    :raises ConfigurationError: [nodes] transport_url is unusable.
    """

    def __init__(self, conf: cfg.ConfigOpts,
                 registered: Callable[[], Iterable[str]],
                 topics: dict[str, list[Any]],
                 counted: metrics.Metrics | None = None,
                 come_round: Callable[[], None] = lambda: None,
                 vhost: Callable[[str], str] = broker.node_vhost,
                 wakeup: Callable[[Any], Any] = rpc.WakeupClient,
                 page: Callable[[str], tuple[Any, ...] | None]
                 = lambda host: None) -> None:
        if '{vhost}' not in (conf.nodes.transport_url or ''):
            raise option_values.ConfigurationError(
                '[nodes] transport_url: name the broker as "octavia-xdp-'
                'manage broker setup" prints it, with {vhost} for the '
                'virtual hosts of the nodes')
        self._conf = conf
        self._registered = registered
        self._topics = topics
        self._metrics = counted or metrics.Metrics(
            prometheus_client.CollectorRegistry())
        self._come_round = come_round
        self._vhost, self._wakeup = vhost, wakeup
        self._page = page
        self._lock = threading.Lock()
        self._nodes: dict[str, _Node] = {}
        self._stopping = threading.Event()
        bounded_calls.limit_lines_about_messages()

    def run(self) -> None:
        """Serve registered hosts until ``stop`` is called."""
        while not self._stopping.is_set():
            self._come_round()
            try:
                self.ensure(self._registered())
            except Exception:
                LOG.exception('Failed to read the registered nodes; serving '
                              'the former ones.')
            self._stopping.wait(LOOK_S)
        self.ensure(())

    def ensure(self, hosts: Iterable[str]) -> None:
        """Serve these hosts and no other.

        Only waits a moment for calls under way of removed hosts.
        """
        wanted = set(hosts)
        with self._lock:
            gone = [self._nodes.pop(host)
                    for host, node in list(self._nodes.items())
                    if host not in wanted or node.is_over()]
            for host in wanted - self._nodes.keys():
                self._nodes[host] = _Node(
                    self._conf, host, self._topics, self._metrics,
                    self._vhost(host), self._wakeup, self._page)
        for node in gone:
            node.stop()
        for node in gone:
            node.join()

    def notify(self, hosts: Iterable[str]) -> None:
        """Tell nodes to fetch, without blocking. A lost notification is
        harmless, as nodes also fetch by themselves."""
        with self._lock:
            nodes = [self._nodes[host] for host in hosts
                     if host in self._nodes]
        for node in nodes:
            node.notify()

    def send(self, host: str, message: Callable[[Any], None]) -> None:
        """Call ``message`` with a host's wakeup client, without blocking.
        Messages beyond MESSAGES_MAX are lost."""
        with self._lock:
            node = self._nodes.get(host)
        if node is not None:
            node.send(message)

    def threads(self) -> list[threading.Thread]:
        """Return the threads that serve the nodes at present."""
        with self._lock:
            return [node.thread for node in self._nodes.values()]

    def stop(self) -> None:
        """Let ``run`` return."""
        self._stopping.set()


class _Node:
    """The threads of one node."""

    def __init__(self, conf: cfg.ConfigOpts, host: str,
                 topics: dict[str, list[Any]],
                 counted: metrics.Metrics, vhost: str,
                 wakeup: Callable[[Any], Any],
                 page: Callable[[str], tuple[Any, ...] | None]) -> None:
        self._metrics = counted
        self._page = page
        self._vhost, self._wakeup = vhost, wakeup
        self._conf = conf
        self._host = host
        self._topics = topics
        self._ended_at = 0.0
        self._stop = threading.Event()
        self._notify = threading.Event()
        self._notified = False
        self._messages: collections.deque[Callable[[Any], None]] = (
            collections.deque(maxlen=MESSAGES_MAX))
        # Connecting takes as long as the broker or the virtual host is
        # missing. A daemon thread does not stop the process from ending.
        self.thread = threading.Thread(
            target=self._run, name=f'node {host}', daemon=True)
        self.thread.start()

    def notify(self) -> None:
        self._notified = True
        self._notify.set()

    def send(self, message: Callable[[Any], None]) -> None:
        self._messages.append(message)
        self._notify.set()

    def is_over(self) -> bool:
        """Return whether it ended by itself at least RETRY_S seconds ago."""
        return (not self.thread.is_alive()
                and time.monotonic() - self._ended_at >= RETRY_S)

    def stop(self) -> None:
        self._stop.set()
        self._notify.set()

    def join(self) -> None:
        self.thread.join(timeout=5)

    def _run(self) -> None:
        servers: list[Any] = []
        transport = None
        try:
            transport = rpc.transport(
                self._conf, url=transport_url(self._conf, self._vhost))
            rate = bounded_calls.Rate(self._conf.nodes.calls_per_second)
            complaints = bounded_calls.Complaints()
            for topic, endpoints in self._topics.items():
                server = rpc.server(
                    transport, topic, self._conf.host,
                    [BoundEndpoint(self._host, endpoint, complaints,
                                   self._metrics) for endpoint in endpoints])
                server.dispatcher = bounded_calls.Dispatcher(
                    self._host, server.dispatcher, rate, complaints,
                    self._metrics)
                servers.append(server)
                server.start()
            LOG.info('Serving node %s.', self._host)
            self._send_notifications(self._wakeup(transport))
        except Exception:
            LOG.exception('Failed to serve node %s; trying again.',
                          self._host)
            self._metrics.failed('serve')
        self._ended_at = time.monotonic()
        for server in servers:
            server.stop()
        for server in servers:
            server.wait()
        if transport is not None:
            transport.cleanup()

    def _send_notifications(self, client: Any) -> None:
        while True:
            self._notify.wait()
            self._notify.clear()
            if self._stop.is_set():
                return
            try:
                if self._notified:
                    self._notified = False
                    client.notify(self._host, *(self._page(self._host) or ()))
                while self._messages:
                    self._messages.popleft()(client)
            except rpc.TRANSPORT_ERRORS as error:
                self._metrics.failed('wakeup')
                LOG.warning('Could not notify node %s: %s', self._host,
                            error)


class BoundEndpoint:
    """Restricts an endpoint to calls of one node for itself.

    Refused calls are the node's fault, and logged in one line at most every
    bounded_calls.COMPLAINT_S seconds.
    """

    def __init__(self, host: str, endpoint: Any,
                 complaints: bounded_calls.Complaints,
                 counted: metrics.Metrics) -> None:
        self.target = endpoint.target
        self._metrics = counted
        self._complaints = complaints
        self._host = host
        for name, method in inspect.getmembers(endpoint, inspect.ismethod):
            if not name.startswith('_'):
                setattr(self, name, functools.partial(
                    self._call, name, method))

    def _call(self, name: str, method: Callable[..., Any], context: Any,
              host: Any = None, **arguments: Any) -> Any:
        self._metrics.called(name)
        try:
            if host != self._host:
                raise errors.Refused(
                    'host', f'these are the credentials of {self._host}',
                    'set [DEFAULT] host to the name that they were made for')
            return method(context, host=host, **arguments)
        except errors.Refused as error:
            self._metrics.failed('refused')
            self._log_refusal(name, host, error)
            # oslo.messaging would log a traceback of any other exception.
            raise oslo_messaging.ExpectedException() from error

    def _log_refusal(self, name: str, host: Any, error: errors.Refused
                     ) -> None:
        if not self._complaints.are_due():
            return
        if host != self._host:
            LOG.error('Refused: node %s calls %s in the name of %.100r. Its '
                      'credentials may be compromised.', self._host, name,
                      host)
        else:
            LOG.error('Node %s: its %s is refused (%s calls in total): %.300s',
                      self._host, name, self._complaints.number, error)


def transport_url(conf: cfg.ConfigOpts, vhost: str) -> str:
    """Return the transport URL of a virtual host, for the controllers."""
    name = urllib.parse.quote(vhost, safe='')
    return str(conf.nodes.transport_url).replace('{vhost}', name)

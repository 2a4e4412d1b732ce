# SPDX-License-Identifier: Apache-2.0
"""The controller process: RPC servers, workers, the leader's duties.

Any number of controllers may share a database. All of them serve calls and
work; one is the leader. Each may be killed at any time.
"""

from collections.abc import Callable
from collections.abc import Iterable
import os
import threading
from typing import Any
import uuid

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import advance
from octavia_xdp_provider.controller import awaited
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller import duty
from octavia_xdp_provider.controller import heartbeats
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import node_servers
from octavia_xdp_provider.controller import pages
from octavia_xdp_provider.controller import resync
from octavia_xdp_provider.controller import secrets_api
from octavia_xdp_provider.controller import statistics
from octavia_xdp_provider.controller import vault
from octavia_xdp_provider.controller import workers
from octavia_xdp_provider.controller.neutron_ports import notifications
from octavia_xdp_provider.controller.octavia import client
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.scheduler import service as scheduler
from octavia_xdp_provider.controller.store import limits
from octavia_xdp_provider.controller.store import load_balancers
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema
from octavia_xdp_provider.controller.zero_touch import notified
from octavia_xdp_provider.controller.zero_touch import service as ways
from octavia_xdp_provider.process import health
from octavia_xdp_provider.process import monitoring

LOG = logging.getLogger(__name__)

# Seconds after a change was stored in which Octavia usually commits it.
COMMIT_S = 0.02
# Seconds after a report in which the load balancer's other nodes report as
# well, so that one step handles all reports.
REPORTS_S = 0.01
# Seconds between two checks of database and broker, and for which they may
# fail.
CHECK_INTERVAL_S = 5.0
CHECK_LIMIT_S = 20.0
# Seconds for an answer over the broker.
PING_S = 5.0


class Controller:
    """Wires the parts together; ``run`` until ``stop`` is called."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        manager = schema.context_manager(conf)
        schema.check(manager)
        self._conf = conf
        self._store = queries.Store(manager)
        # Unique to this run: a restarted controller is another one.
        owner = f'{conf.host}:{os.getpid()}:{uuid.uuid4().hex[:8]}'
        transport = rpc.transport(conf)
        self._monitoring = monitoring.Monitoring(conf, 'controller')
        watch = self._monitoring.loops.watch
        self.metrics = metrics.Metrics(self._monitoring.registry)
        octavia = client.Octavia(conf)
        lease_s = conf.controller.lease_duration
        placing = scheduler.Scheduler(conf, self._store)
        self._awaited = awaited.Awaited()
        self._octavia = octavia
        waiting = workers.Waiting()
        self._workers = workers.Workers(
            self._store, advance.Advance(
                conf, self._store, octavia, placing, self._notify,
                self.metrics.done, self._awaited.expect, waiting).step,
            owner, conf.controller.workers, lease_s, watch('workers'),
            waiting)
        self._monitoring.loops.watch_age('worker', self._workers.busy_s)
        self._leadership = duty.Leadership(self._store, owner, lease_s)
        self._duty = duty.Duty(
            conf, self._store, self._leadership, placing,
            self._notify, self._workers.wake, watch('leader'))
        self._statistics = statistics.Statistics(
            self._store.figures, octavia, conf.placement.node_timeout)
        self._resync = resync.Resync(conf, self._store, octavia,
                                     self._workers.wake)
        self._stop = threading.Event()
        self.serving = threading.Event()
        self._server = rpc.server(
            transport, rpc.CONTROLLER_TOPIC, conf.host,
            [driver_api.DriverEndpoint(self._store, self._stored,
                                       self._changed, self._promoted,
                                       self.metrics, lambda: limits.of(conf),
                                       options.allowed_addresses(conf),
                                       vault.Vault(conf).receive)])
        self._heartbeats = heartbeats.Heartbeats(self._store,
                                                 watch('heartbeats'))
        sent = pages.Pages(self._store.deltas.changes)
        self._nodes = self._node_servers(sent, watch('nodes'))
        self._hosts = self._host_servers(watch('hosts'))
        notified_members = notified.Notified(self._wake_zero_touch)
        come_round = watch('zero touch')
        self._zero_touch = ways.loop(ways.ZeroTouch(
            conf, self._store, duty.LEASE, self._leadership.token,
            self._hosts.notify, self._notify, notified=notified_members,
            come_round=come_round, waiting=self.metrics.lookups_wait),
            come_round)
        self._listeners = [notifications.Listener(
            conf, notified_members.handle, lambda: notified_members.is_wanted,
            watch('notifications'))
        ] if conf.zero_touch.notification_transport_url else []
        self._monitoring.registry.register(metrics.Collector(
            self._store, lambda: self._leadership.token() is not None,
            conf.placement))
        self._check_health(transport)

    def _node_servers(self, sent: pages.Pages, watch: Callable[[], None]
                      ) -> node_servers.NodeServers:
        return node_servers.NodeServers(
            self._conf, self._store.nodes.hosts, {
                rpc.CONTROLLER_TOPIC: [node_api.NodesEndpoint(
                    self._store, self._reported, self._duty.wake,
                    sent.fetched), secrets_api.SecretsEndpoint(
                        self._store, vault.Vault(self._conf))],
                rpc.HEARTBEAT_TOPIC: [
                    node_api.HeartbeatEndpoint(self._heartbeats.note_alive)]},
            self.metrics, watch, page=sent.next)

    def _host_servers(self, watch: Callable[[], None]
                      ) -> node_servers.NodeServers:
        return node_servers.NodeServers(
            self._conf, self._store.hypervisors.hosts, {
                host_rpc.CONTROLLER_TOPIC: [host_api.HostsEndpoint(
                    self._conf, self._store, self._wake_zero_touch,
                    self._pass_flows_on)]},
            self.metrics, watch, broker.host_vhost, host_rpc.WakeupClient)

    def _check_health(self, transport: oslo_messaging.Transport) -> None:
        for name, attempt in (
                ('database', self._store.database.now),
                # A controller of an earlier release may answer.
                ('broker', lambda: rpc.DriverClient(
                    transport, rpc.DRIVER_VERSIONS[0]).ping(PING_S))):
            self._monitoring.repeat(name, health.Repeated(
                name, attempt, CHECK_INTERVAL_S, CHECK_LIMIT_S))

    def stop(self) -> None:
        """Ask ``run`` to return. Safe in a signal handler."""
        self._stop.set()

    def reload(self) -> None:
        """Apply changed options to all load balancers."""
        self._store.work.mark_all()
        self._workers.wake()

    def run(self) -> None:
        """Serve until ``stop`` is called.

        :raises ConfigurationError: it cannot listen at a configured address.
        """
        self._monitoring.start()
        section = self._conf.controller
        parts: tuple[Any, ...] = (
            self._workers, self._duty, self._nodes, self._heartbeats,
            self._hosts, self._zero_touch, *self._listeners)
        threads = [threading.Thread(target=part.run, name=type(part).__name__)
                   for part in parts]
        threads += [
            threading.Thread(target=self._lead, name=name, args=arguments)
            for name, *arguments in (
                ('statistics', self._statistics.send,
                 section.statistics_interval,
                 'Listener statistics are sent later'),
                ('resync', self._run_resync, section.resync_interval,
                 'The comparison with Octavia is made later'))]
        for thread in threads:
            thread.start()
        # Without a broker the other threads continue.
        threading.Thread(target=self._serve, name='driver',
                         daemon=True).start()
        self._monitoring.ready()
        self._stop.wait()
        self._monitoring.stop()
        # All at once, as each listener takes seconds to notice. Items that are
        # stored meanwhile are left to other controllers or the next start.
        for part in (*parts, self._octavia):
            part.stop()
        if self.serving.is_set():
            self._server.stop()
            self._server.wait()
        for thread in threads:
            thread.join()
        LOG.info('Controller %s has stopped.', self._conf.host)

    def _serve(self) -> None:
        """Answer drivers once the broker is available."""
        try:
            self._server.start()
        except Exception:
            LOG.exception('Failed to serve drivers; the controller stops.')
            self._stop.set()
            return
        self.serving.set()
        LOG.info('Controller %s serves.', self._conf.host)

    def _run_resync(self) -> None:
        self._resync.run(self._leadership.token)

    def _lead(self, work: Callable[[], object], interval_s: float, failure: str
              ) -> None:
        """Do the leader's work at intervals."""
        logged = None
        while not self._stop.wait(interval_s):
            if self._leadership.token() is None:
                continue
            try:
                work()
                logged = None
            except errors.OctaviaUnavailable as error:
                if str(error) != logged:
                    LOG.warning('%s: %s', failure, error)
                logged = str(error)
            except Exception:
                LOG.exception('%s.', failure)

    def _notify(self, hosts: Iterable[str]) -> None:
        """Notify nodes of changes."""
        self._nodes.notify(hosts)

    def _wake_zero_touch(self) -> None:
        self._zero_touch.wake()

    def _pass_flows_on(self, host: str, port: str,
                       flows: list[host_messages.Flow]) -> None:
        self._hosts.send(host, lambda client: client.flows(host, port, flows))

    def _promoted(self, promoted: load_balancers.Promoted) -> None:
        """Handle a committed change (store.load_balancers.Promoted)."""
        if promoted.zero_touch:
            self._zero_touch.wake()
        if promoted.to_be_placed:
            self._workers.wake(ids=[promoted.load_balancer_id])
            return
        self._awaited.expect(promoted.load_balancer_id, promoted.generation,
                             promoted.hosts)
        self._notify(promoted.hosts)

    def _changed(self, load_balancer_ids: Iterable[str]) -> None:
        """Handle load balancers that were marked."""
        self._workers.wake(ids=load_balancer_ids)

    def _reported(self, host: str, load_balancer_ids: Iterable[str],
                  generations: dict[str, int]) -> None:
        """Handle load balancers that a node has reported on."""
        if not load_balancer_ids:
            self._workers.wake()
            return
        last, waiting, unexpected = self._awaited.reported(
            host, load_balancer_ids, generations)
        if last:
            self._workers.wake(ids=last)
        if waiting:
            self._workers.wake(self._awaited.others_s, waiting)
        if unexpected:
            self._workers.wake(REPORTS_S, unexpected)

    def _stored(self, reports_end: bool) -> None:
        """Handle a change that Octavia has not committed yet."""
        if not reports_end:
            self._workers.wake(COMMIT_S)

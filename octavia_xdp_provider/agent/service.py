# SPDX-License-Identifier: Apache-2.0
"""The node agent: creates its parts and runs its threads.

The *link* (link.py) fetches the wanted state and reports the actual one; the
*worker* (worker.py) applies the wanted state and maintains announcements.
Uplinks have a thread of their own, see uplinks/monitor.py.

If the run directory cannot be written, no VIP can be withdrawn and the health
checker cannot pass on results. The node then reports every load balancer with
that error and no member as up or down, so that nothing depends on it.
"""

import oslo_messaging

from octavia_xdp_provider.agent import checks_file
from octavia_xdp_provider.agent import history
from octavia_xdp_provider.agent import link
from octavia_xdp_provider.agent import listener_metrics
from octavia_xdp_provider.agent import metrics
from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.agent import node_state
from octavia_xdp_provider.agent import probes
from octavia_xdp_provider.agent import processes
from octavia_xdp_provider.agent import recheck
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent import secret_file
from octavia_xdp_provider.agent import worker
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.agent.uplinks import path_mtu
from octavia_xdp_provider.config import nat_options
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.node import reserve
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.process import agent_threads
from octavia_xdp_provider.process import fetching
from octavia_xdp_provider.process import link as common_link
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.process import reports
from octavia_xdp_provider.process import wanted

# Room for a second announcements file of 5,000 prefixes while it is replaced.
RESERVE_BYTES = 1 << 20


class WakeupEndpoint:
    """RPC endpoint through which the controller wakes this node up."""

    target = oslo_messaging.Target(namespace=rpc.WAKEUP_NAMESPACE,
                                   version=rpc.VERSION)

    def __init__(self, notified):
        """:param notified: see Link.wake."""
        self._notified = notified

    def changed(self, context, since=None, page=None):
        self._notified(since, page)


class Agent:
    """Creates the parts; ``run`` serves until ``stop`` is called."""

    def __init__(self, conf):
        self._conf = conf
        self._files = run_directory.RunDirectory(conf)
        self._files.make()
        self._datapath = self._files.open_datapath(create=True)
        self._own_addresses = frozenset()  # as of the last pass
        self._announce = announce = announcements.Announcements(
            conf.agent.run_directory,
            [*option_values.networks(conf, 'vip', 'allowed_networks'),
             *nat_options.pools(conf)],
            reserve.Reserve(self._files.reserve, RESERVE_BYTES))
        self._kernel = netlink.Kernel()  # the worker's
        through = probes.Probes(
            self._datapath, self._kernel, conf.agent.uplinks,
            conf.agent.probe_through_datapath)
        self._monitoring = monitoring.Monitoring(conf, 'agent')
        self.metrics = metrics.Metrics(self._monitoring.registry)
        watch = self._monitoring.loops.watch
        self._uplinks = monitor.UplinkMonitor(
            conf, self._datapath, self._wake_worker, watch('uplinks'))
        self._nat = nat.Nat(conf, self._datapath,
                            self._kernel.own_addresses,
                            self.metrics.announced_without_peers)
        self._worker = worker.Worker(
            reconcile.Reconciler(
                conf, self._files, self._datapath, announce,
                self._allowed_addresses,
                path_mtu.PathMtu(self._kernel, conf.datapath.member_mtu),
                through,
                recheck.Recheck(conf, self._uplinks, self._files,
                                self._sessions, self._wake_worker),
                checks_file.Keys(
                    secret_file.load(self._files.checks_secret)),
                self._nat, self.metrics.without_history),
            self._datapath, self._uplinks, through, self._notify_link,
            self.stop, self.metrics, watch('worker'),
            heartbeat.Heartbeat(self._files.agent_heartbeat).beat)
        transport = rpc.transport(conf, host=conf.host)
        other_processes = processes.Processes(self._files, announce)
        self._link = self._make_link(transport, node_state.NodeState(
            conf, self._files, self._datapath, announce, self._uplinks,
            through, other_processes, lambda: self._own_addresses,
            self._worker.open_slots, self._worker.nat_state))
        self._heartbeat = common_link.Heartbeat(
            conf.host, rpc.HeartbeatClient(transport), self.metrics.failed,
            lambda: self._link.reported_at)
        self._monitoring.registry.register(metrics.Collector(
            self._datapath, self._link, self._worker, self._uplinks,
            announce, other_processes))
        self._monitoring.registry.register(listener_metrics.Collector(
            conf, self._link, self._worker))
        for name, check in (('controller', self._check_controller),
                            ('node', self._check_node)):
            self._monitoring.health.add(name, check)
        self._threads = agent_threads.AgentThreads(
            self._monitoring, self._worker, self._link,
            rpc.server(transport, rpc.NODE_TOPIC, conf.host,
                       [WakeupEndpoint(self._wake_link)]),
            conf.agent.report_interval)

    def _make_link(self, transport, state):
        host = self._conf.host
        controller = rpc.NodesClient(
            transport, version=self._conf.upgrade_levels.nodes)
        self._history = history.Asker(
            controller, host, self._worker.given_history,
            lambda: self._worker.total().packets > 0,
            self.metrics.without_history, self._has_forwarded())
        fetcher = fetching.Fetcher(controller, host,
                                   wanted.Cache(self._files.wanted))
        return link.Link(host, controller, fetcher, reports.Reporter(),
                         self._worker, state, self._files,
                         self._conf.agent.report_interval,
                         self.metrics.failed, nat=self._nat,
                         added=self._history.ask)

    def _has_forwarded(self):
        """Return whether this node has forwarded packets: its slots have their
        former owners then."""
        return any(summary.packets
                   for summary in self._datapath.summaries().values())

    def _check_controller(self):
        return agent_threads.silence(self._link.answered_at, 'the node')

    def _check_node(self):
        return '; '.join(filter(None, (
            *self._worker.problems, self._nat and self._nat.problem))) or None

    def _wake_worker(self):
        self._worker.wake()

    def _wake_link(self, since=None, page=None):
        self._link.wake(since, page)

    def _notify_link(self):
        self._link.report_soon()

    def _sessions(self):
        status = self._announce.status()
        return status.neighbours if status else {}

    def _allowed_addresses(self):
        self._own_addresses = frozenset(self._kernel.own_addresses())
        return options.allowed_addresses(self._conf, self._own_addresses)

    def stop(self):
        """Make ``run`` return. The datapath goes on forwarding."""
        self._threads.stop()
        self._heartbeat.stop()
        self._history.stop()

    def reload(self):
        """Apply changed options; they may change announcements."""
        self._worker.wake()

    def run(self):
        """Serve until ``stop`` is called, or another library takes over.

        :returns: the exit status, which is not 0 in the second case.
        :raises ConfigurationError: it cannot listen as configured.
        """
        self._monitoring.start()
        self._uplinks.start()
        wakeup.listen(self._files.agent_wakeup, self._wake_worker)
        self._heartbeat.start()
        self._history.start()
        self._threads.run(f'Agent {self._conf.host}')
        self._uplinks.stop()
        return int(self._worker.is_stale)

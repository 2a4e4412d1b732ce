# SPDX-License-Identifier: Apache-2.0
"""The node agent: creates its parts and runs its threads.

The *link* (link.py) fetches the wanted state and reports the actual one; the
*worker* (worker.py) applies the wanted state and maintains announcements.
Uplinks have a thread of their own, see uplinks/monitor.py.

If the run directory cannot be written, no VIP can be withdrawn and the health
checker cannot pass on results. The node then reports every load balancer with
that error and no member as up or down, so that nothing depends on it.
"""

from collections.abc import Callable
from typing import Any

from oslo_config import cfg
import oslo_messaging

from octavia_xdp_provider.agent import history
from octavia_xdp_provider.agent import link
from octavia_xdp_provider.agent import listener_metrics
from octavia_xdp_provider.agent import metrics
from octavia_xdp_provider.agent import nat
from octavia_xdp_provider.agent import node_state
from octavia_xdp_provider.agent import parts
from octavia_xdp_provider.agent import plans
from octavia_xdp_provider.agent import probes
from octavia_xdp_provider.agent import processes
from octavia_xdp_provider.agent import recheck
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent import worker
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.uplinks import monitor
from octavia_xdp_provider.agent.uplinks import path_mtu
from octavia_xdp_provider.config import nat_options
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.health import secret_file
from octavia_xdp_provider.node import heartbeat
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.node import reserve
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.node import wakeup
from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import heartbeat as agents_heartbeat
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import service
from octavia_xdp_provider.process.agents import wanted

# Room for a second announcements file of 5,000 prefixes while it is replaced.
RESERVE_BYTES = 1 << 20


class WakeupEndpoint:
    """RPC endpoint through which the controller wakes this node up."""

    target = oslo_messaging.Target(namespace=rpc.WAKEUP_NAMESPACE,
                                   version=rpc.VERSION)

    def __init__(self, notified: Callable[[Any, Any], None]) -> None:
        """:param notified: see Link.wake."""
        self._notified = notified

    def changed(self, context: Any, since: Any = None, page: Any = None
                ) -> None:
        self._notified(since, page)


class Agent(service.Agent):
    """Creates the parts; ``run`` serves until ``stop`` is called."""

    title, check, machine = 'Agent', 'node', 'node'
    _worker: worker.Worker

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf, 'agent')
        self._files = run_directory.RunDirectory(conf)
        self._files.make()
        self._kernel = netlink.Kernel()  # the worker's
        # As of the last pass.
        self._own_addresses: frozenset[str] = frozenset()
        registry, loops = self._monitoring.registry, self._monitoring.loops
        self.metrics = metrics.Metrics(registry)
        self._parts = self._make_parts()
        self._worker = worker.Worker(
            self._make_reconciler(), self._parts, self.metrics,
            self._report_soon, self.stop, loops.watch('worker'),
            heartbeat.Heartbeat(self._files.agent_heartbeat).beat)
        controller = rpc.NodesClient(
            self._transport, version=conf.upgrade_levels.nodes)
        self._history = history.Asker(
            controller, conf.host, self._worker.given_history,
            lambda: self._worker.facts.total().packets > 0,
            self.metrics.without_history, self._has_forwarded())
        self._link = link.Link(
            reporting.Ends(
                conf.host, controller,
                fetching.Fetcher(controller, conf.host,
                                 wanted.Cache(self._files.wanted)),
                reports.Reporter(), self._worker,
                node_state.NodeState(conf, self._parts, self._worker.facts,
                                     lambda: self._own_addresses),
                self._files),
            self._options.report_interval, self.metrics.failed,
            self._parts.nat, self._history.ask)
        self._heartbeat = agents_heartbeat.Heartbeat(
            conf.host, rpc.HeartbeatClient(self._transport),
            self.metrics.failed, lambda: self._link.reported_at)
        registry.register(metrics.Collector(
            self._parts, self._link, self._worker, self._worker.facts))
        registry.register(listener_metrics.Collector(
            conf, self._link, self._worker.facts))
        self._server = rpc.server(
            self._transport, rpc.NODE_TOPIC, conf.host,
            [WakeupEndpoint(self._link.wake)])

    def _make_parts(self) -> parts.Parts:
        conf = self._conf
        dataplane = self._files.open_datapath(create=True)
        announce = announcements.Announcements(
            self._options.run_directory,
            [*option_values.networks(conf, 'vip', 'allowed_networks'),
             *nat_options.pools(conf)],
            reserve.Reserve(self._files.reserve, RESERVE_BYTES))
        return parts.Parts(
            self._files, dataplane, announce,
            monitor.UplinkMonitor(
                conf, dataplane, self._wake_worker,
                self._monitoring.loops.watch('uplinks')),
            probes.Probes(
                dataplane, self._kernel, self._options.uplinks,
                self._options.probe_through_datapath),
            nat.Nat(conf, dataplane, self._kernel.own_addresses,
                    self.metrics.announced_without_peers),
            processes.Processes(self._files, announce))

    def _make_reconciler(self) -> reconcile.Reconciler:
        return reconcile.Reconciler(
            self._conf, self._files, self._parts.datapath,
            self._parts.announce,
            plans.Inputs(
                self._allowed_addresses,
                path_mtu.PathMtu(self._kernel,
                                 self._conf.datapath.member_mtu),
                self._parts.probes,
                checks_file.Keys(
                    secret_file.load(self._files.checks_secret)),
                self._parts.nat),
            recheck.Recheck(self._conf, self._parts.uplinks, self._files,
                            self._sessions, self._wake_worker),
            self.metrics.without_history)

    def _has_forwarded(self) -> bool:
        """Return whether this node has forwarded packets: its slots have their
        former owners then."""
        return any(summary.packets for summary
                   in self._parts.datapath.summaries().values())

    def _check_machine(self) -> str | None:
        return '; '.join(filter(None, (
            super()._check_machine(), self._parts.nat.problem))) or None

    def _sessions(self) -> dict[str, str]:
        status = self._parts.announce.status()
        return status.neighbours if status else {}

    def _allowed_addresses(self) -> address_policy.AddressPolicy:
        self._own_addresses = frozenset(self._kernel.own_addresses())
        return options.allowed_addresses(self._conf, self._own_addresses)

    def stop(self) -> None:
        super().stop()
        self._heartbeat.stop()
        self._history.stop()

    def run(self) -> int:
        """See service.Agent; also returns if another library takes over. The
        exit status is not 0 then."""
        super().run()
        return int(self._worker.is_stale)

    def _start(self) -> None:
        self._parts.uplinks.start()
        wakeup.listen(self._files.agent_wakeup, self._wake_worker)
        self._heartbeat.start()
        self._history.start()

    def _end(self) -> None:
        self._parts.uplinks.stop()

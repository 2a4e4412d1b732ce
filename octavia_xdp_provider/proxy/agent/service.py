# SPDX-License-Identifier: Apache-2.0
"""The agent of a proxy node: creates its parts and runs its threads.

The *link* fetches the wanted state and reports the actual one; the *worker*
has the launcher run what is wanted, and reads what runs; the *watch* waits for
the launcher's answers. HAProxy processes go on without it.
"""

import threading
from typing import Any

from oslo_config import cfg
import oslo_messaging

from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import heartbeat
from octavia_xdp_provider.process.agents import metrics as agent_metrics
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import service
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.proxy.agent import haproxy
from octavia_xdp_provider.proxy.agent import launcher
from octavia_xdp_provider.proxy.agent import link
from octavia_xdp_provider.proxy.agent import metrics
from octavia_xdp_provider.proxy.agent import node_state
from octavia_xdp_provider.proxy.agent import orders
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.agent import plans
from octavia_xdp_provider.proxy.agent import reconcile
from octavia_xdp_provider.proxy.agent import records
from octavia_xdp_provider.proxy.agent import run_directory
from octavia_xdp_provider.proxy.agent import states
from octavia_xdp_provider.proxy.agent import watch
from octavia_xdp_provider.proxy.agent import worker
from octavia_xdp_provider.proxy.runtime import service as runtime
from octavia_xdp_provider.proxy.secrets import held
from octavia_xdp_provider.proxy.secrets import own_key


class WakeupEndpoint:
    """RPC endpoint through which the controller wakes this node up."""

    target = oslo_messaging.Target(namespace=rpc.WAKEUP_NAMESPACE,
                                   version=rpc.VERSION)

    def __init__(self, agent_link: link.Link) -> None:
        self._link = agent_link

    def changed(self, context: Any, since: Any = None, page: Any = None
                ) -> None:
        self._link.wake(since, page)


class ProxyAgent(service.Agent):
    """Creates the parts; ``run`` serves until ``stop`` is called."""

    title, check, machine = 'Agent of proxy node', 'node', 'node'
    remains = 'HAProxy processes go on'
    _worker: worker.Worker

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf, 'proxy')
        self._files = run_directory.RunDirectory(conf)
        self._files.make()
        registry, loops = self._monitoring.registry, self._monitoring.loops
        self.metrics = agent_metrics.NodeMetrics(metrics.PREFIX, registry)
        self._program = haproxy.Program(self._options.haproxy)
        self._watch = watch.Watch(self._files.states, self._wake_worker,
                                  loops.watch('states'))
        controller = rpc.NodesClient(
            self._transport, version=conf.upgrade_levels.nodes)
        self._secrets = held.Secrets(
            conf.host, rpc.SecretsClient(
                self._transport, version=conf.upgrade_levels.nodes),
            own_key.load(self._options.state_directory), self._wake_worker,
            loops.watch('secrets'))
        self._runtime = runtime.Runtime(
            self._options.run_directory, self._wake_worker,
            loops.watch('runtime'))
        self._parts = self._make_parts()
        self._worker = self._make_worker()
        self._link = link.Link(
            reporting.Ends(
                conf.host, controller,
                fetching.Fetcher(controller, conf.host,
                                 wanted.Cache(self._files.wanted)),
                reports.Reporter(), self._worker,
                node_state.NodeState(conf, self._parts, self._worker),
                self._files),
            self._options.report_interval, self.metrics.failed)
        self._heartbeat = heartbeat.Heartbeat(
            conf.host, rpc.HeartbeatClient(self._transport),
            self.metrics.failed, lambda: self._link.reported_at)
        registry.register(metrics.Collector(self._link, self._worker))
        self._server = rpc.server(self._transport, rpc.NODE_TOPIC, conf.host,
                                  [WakeupEndpoint(self._link)])

    def _make_parts(self) -> parts.Parts:
        return parts.Parts(secrets=self._secrets, health=self._runtime,
                           traffic=self._runtime)

    def _make_worker(self) -> worker.Worker:
        written = orders.Orders(self._files)
        written.clean()
        running = states.States(self._files.states)
        kept = records.Records(
            self._files.records, range(self._options.number_min,
                                       self._options.number_max + 1),
            written.numbers())
        return worker.Worker(
            reconcile.Reconciler(written, kept, running, self._parts),
            running, self._watch.take, self._node,
            lambda: launcher.problem(self._files.launcher_lock),
            self._parts.traffic, self.metrics, self._report_soon,
            self._monitoring.loops.watch('worker'))

    def _node(self) -> plans.Node:
        options = self._options
        return plans.Node(
            self._conf.host, self._program.version(),
            connections=options.connections, threads=options.threads,
            memory_bytes=options.memory << 20, cpu_weight=options.cpu_weight,
            stop_after_s=options.stop_after)

    def stop(self) -> None:
        super().stop()
        self._heartbeat.stop()
        self._secrets.stop()

    def _start(self) -> None:
        self._watch.start()
        self._runtime.start()
        self._heartbeat.start()
        threading.Thread(target=self._secrets.run, name='secrets',
                         daemon=True).start()

    def _end(self) -> None:
        self._watch.stop()
        self._runtime.stop()

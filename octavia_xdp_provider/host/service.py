# SPDX-License-Identifier: Apache-2.0
"""The agent of a hypervisor: wires its parts together and runs its threads.

The *link* fetches what the hypervisor should have and reports what it has, the
*watch* follows the taps of ports, the *worker* applies the wanted state.
"""

import typing

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.host import address_sets
from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import fetching
from octavia_xdp_provider.host import host_state
from octavia_xdp_provider.host import link
from octavia_xdp_provider.host import links
from octavia_xdp_provider.host import member_counters
from octavia_xdp_provider.host import metrics
from octavia_xdp_provider.host import moved_flows
from octavia_xdp_provider.host import reconcile
from octavia_xdp_provider.host import run_directory
from octavia_xdp_provider.host import settings
from octavia_xdp_provider.host import watch
from octavia_xdp_provider.host import worker
from octavia_xdp_provider.process import agent_threads
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.process import reports
from octavia_xdp_provider.process import wanted

LOG = logging.getLogger(__name__)

_FLOWS = shape.arguments(port=host_messages.Id, flows=host_messages.Flows)


class WakeupEndpoint:
    """RPC endpoint by which the controller wakes this agent."""

    target = oslo_messaging.Target(namespace=host_rpc.WAKEUP_NAMESPACE,
                                   version=host_rpc.VERSION)

    def __init__(self, notified: typing.Callable[[], None],
                 arriving: moved_flows.Arriving) -> None:
        self._notified = notified
        self._arriving = arriving

    def changed(self, context: typing.Any) -> None:
        self._notified()

    def flows(self, context: typing.Any, port: typing.Any,
              flows: typing.Any) -> None:
        """Receive flows of a port that began on another hypervisor.

        :raises Refused: the message is malformed.
        """
        _FLOWS.check({'port': port, 'flows': flows})
        self._arriving.put(port, flows)


class HostAgent:
    """The agent; runs from ``run`` until ``stop``.

    :raises HostError: for example, the kernel is too old or bpffs is missing.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._files = run_directory.RunDirectory(conf)
        self._files.make()
        if self._files.create_datapath():
            LOG.info('Created the datapath\'s state in %s.',
                     conf.host_agent.pin_directory)
        self._monitoring = monitoring.Monitoring(conf, 'host_agent')
        self.metrics = metrics.Metrics(self._monitoring.registry)
        watched = self._monitoring.loops.watch
        self._watch = watch.Watch(
            conf.host_agent.ovsdb, settings.interfaces(conf), self._port_ids,
            self._wake_worker, watched('taps'))
        dataplane = self._files.open_datapath()
        arriving = moved_flows.Arriving(dataplane, self._wake_worker)
        carried = member_counters.Carried()
        self._worker = worker.Worker(
            reconcile.Reconciler(
                dataplane,
                address_sets.Numbers(self._files.address_sets),
                conf.host_agent.pin_directory,
                lambda: conf.host_agent.flows_per_port, carried.ending),
            dataplane, links.Links(),
            lambda snapshot: settings.find(conf, snapshot), self._watch,
            lambda: self._fetcher.common, self._report_soon, self.metrics,
            moved_flows.Leaving(dataplane), arriving, carried,
            watched('worker'))
        transport = rpc.transport(conf, host=conf.host)
        controller = host_rpc.HostsClient(transport)
        self._fetcher = fetching.Fetcher(
            controller, conf.host, wanted.Cache(self._files.wanted),
            self._files.common, self._wake_worker)
        self._link = link.Link(
            conf.host, controller, self._fetcher,
            reports.Reporter(sizes=link.HOSTS), self._worker,
            host_state.HostState(conf, self._worker), self._files,
            conf.host_agent.fetch_interval, self.metrics.failed)
        self._monitoring.registry.register(
            metrics.Collector(self._link, self._worker, self._watch))
        for name, check in (('controller', self._check_controller),
                            ('host', self._check_host)):
            self._monitoring.health.add(name, check)
        self._threads = agent_threads.AgentThreads(
            self._monitoring, self._worker, self._link,
            rpc.server(transport, host_rpc.HOST_TOPIC, conf.host,
                       [WakeupEndpoint(self._link.wake, arriving)]),
            conf.host_agent.fetch_interval)

    def _port_ids(self) -> list[str]:
        known = self._fetcher.wanted
        return [key for key, (_generation, document)
                in (known.documents.items() if known else ())
                if documents.is_port(document)]

    def _check_controller(self) -> str | None:
        if self._fetcher.refused:
            return f'the controller refuses this host: {self._fetcher.refused}'
        return agent_threads.silence(self._link.answered_at,
                                     'the hypervisor')

    def _check_host(self) -> str | None:
        return '; '.join(self._worker.problems) or None

    def _wake_worker(self) -> None:
        self._worker.wake()

    def _report_soon(self) -> None:
        self._link.report_soon()

    def stop(self) -> None:
        """Ask ``run`` to return; the datapath keeps forwarding."""
        self._threads.stop()

    def reload(self) -> None:
        """Apply changed options."""
        self._worker.wake()

    def run(self) -> int:
        """Serve until ``stop`` is called.

        :raises ConfigurationError: it cannot listen at the given address.
        """
        self._monitoring.start()
        self._watch.start()
        self._threads.run(f'Agent of hypervisor {self._conf.host}')
        self._watch.stop()
        return 0

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
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import service
from octavia_xdp_provider.process.agents import wanted

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


class HostAgent(service.Agent):
    """The agent; runs from ``run`` until ``stop``.

    :raises HostError: for example, the kernel is too old or bpffs is missing.
    """

    title, check, machine = 'Agent of hypervisor', 'host', 'hypervisor'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf, 'host_agent')
        self._files = run_directory.RunDirectory(conf)
        self._files.make()
        if self._files.create_datapath():
            LOG.info('Created the datapath\'s state in %s.',
                     self._options.pin_directory)
        registry, loops = self._monitoring.registry, self._monitoring.loops
        self.metrics = metrics.Metrics(registry)
        self._watch = watch.Watch(
            self._options.ovsdb, settings.interfaces(conf), self._port_ids,
            self._wake_worker, loops.watch('taps'))
        controller = host_rpc.HostsClient(self._transport)
        self._fetcher = fetching.Fetcher(
            controller, conf.host, wanted.Cache(self._files.wanted),
            self._files.common, self._wake_worker)
        parts = self._make_parts()
        self._worker = worker.Worker(
            reconcile.Reconciler(
                parts.datapath,
                address_sets.Numbers(self._files.address_sets),
                self._options.pin_directory,
                lambda: self._options.flows_per_port, parts.carried.ending),
            parts, self.metrics, self._report_soon, loops.watch('worker'))
        self._link = link.Link(
            reporting.Ends(
                conf.host, controller, self._fetcher,
                reports.Reporter(sizes=link.HOSTS), self._worker,
                host_state.HostState(conf, self._worker), self._files),
            self._options.fetch_interval, self.metrics.failed, parts.leaving)
        registry.register(metrics.Collector(
            self._link, self._worker, self._watch, parts.carried))
        self._server = rpc.server(
            self._transport, host_rpc.HOST_TOPIC, conf.host,
            [WakeupEndpoint(self._link.wake, parts.arriving)])

    def _make_parts(self) -> worker.Parts:
        dataplane, own_links = self._files.open_datapath(), links.Links()
        return worker.Parts(
            dataplane,
            lambda: settings.find(self._conf, own_links.snapshot()),
            self._watch, lambda: self._fetcher.common,
            moved_flows.Leaving(dataplane),
            moved_flows.Arriving(dataplane, self._wake_worker,
                                 self.metrics.discarded),
            member_counters.Carried())

    def _port_ids(self) -> list[str]:
        known = self._fetcher.wanted
        return [key for key, (_generation, document)
                in (known.documents.items() if known else ())
                if documents.is_port(document)]

    def _check_controller(self) -> str | None:
        if self._fetcher.refused:
            return f'the controller refuses this host: {self._fetcher.refused}'
        return super()._check_controller()

    def _start(self) -> None:
        self._watch.start()

    def _end(self) -> None:
        self._watch.stop()

# SPDX-License-Identifier: Apache-2.0
"""LB nodes without a datapath: python -m bench.control.simulated FILE…

Each file is the configuration of a node. The part that talks to the controller
is the agent's own code: link, worker, fetching with its cache, reports and
heartbeat, each with a connection to the node's virtual host. Tables, checks
and announcements are stubs that do nothing and report success.
"""

import sys
import threading

import prometheus_client

from octavia_xdp_provider.agent import link
from octavia_xdp_provider.agent import metrics
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent import service
from octavia_xdp_provider.agent import worker
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.process import interrupts
from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import heartbeat
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import wanted

# Seconds between two lines that report what all nodes hold.
REPORT_S = 0.25


class NullReconciler:
    """Reports everything as applied."""

    def __init__(self):
        self.problems = []
        self.held = {}

    def reconcile(self, wanted_state, ready):
        held = {}
        for key, (generation, document) in (
                wanted_state.documents.items()):
            entry = self.held.get(key)
            if entry is None or entry['generation'] != generation:
                entry = {'generation': generation, 'error': None,
                         'members': _monitored(document), 'announced': True}
            held[key] = entry
        if held != self.held:
            self.held = held
        return reconcile.PassResult(wanted_state, {})

    def announce(self, ready):
        """Announce nothing."""

    def leaving_s(self):
        """Nothing has to wait before it is removed."""

    @property
    def facts(self):
        return self

    def counters(self):
        return {}


def _monitored(document):
    return {member: 'up' for pool in document['pools'].values()
            if pool['healthmonitor'] for member in pool['members']}


class Null:
    """Stub of the agent's parts: datapath, uplinks and probes."""

    ready = frozenset((4, 6))

    def __init__(self):
        self.datapath = self.uplinks = self.probes = self

    def info(self):
        """There is a datapath."""

    def attach(self):
        """There are no probes."""


class NullState:
    """The state that a node reports."""

    def read(self, problems):
        return {'version': '0', 'problems': list(problems),
                'uplinks_ready': [4, 6], 'health_checker': {},
                'services': 0, 'services_max': 65536,
                'members': 0, 'members_max': 2 ** 20,
                'bgp_established': [1, 1], 'addresses': []}


class Node:
    """One simulated node, with its threads."""

    def __init__(self, configuration):
        conf = options.load(config_files=[configuration])
        files = run_directory.RunDirectory(conf)
        files.make()
        transport = rpc.transport(conf)
        controller = rpc.NodesClient(transport, timeout=60)
        self.reconciler = NullReconciler()
        self._worker = worker.Worker(
            self.reconciler, Null(),
            metrics.Metrics(prometheus_client.CollectorRegistry()),
            lambda: self._link.report_soon(), self.stop)
        self._link = link.Link(
            reporting.Ends(
                conf.host, controller,
                fetching.Fetcher(controller, conf.host, wanted.Cache(
                    files.wanted)),
                reports.Reporter(), self._worker, NullState(), files),
            conf.agent.report_interval)
        self._heartbeat = heartbeat.Heartbeat(
            conf.host, rpc.HeartbeatClient(transport),
            reported_at=lambda: self._link.reported_at)
        self._server = rpc.server(
            transport, rpc.NODE_TOPIC, conf.host,
            [service.WakeupEndpoint(self._link.wake)])

    def start(self):
        threading.Thread(target=self._worker.run, daemon=True).start()
        self._server.start()
        self._heartbeat.start()
        threading.Thread(target=self._link.run, daemon=True).start()

    def stop(self):
        self._worker.stop()
        self._link.stop()
        self._heartbeat.stop()


def main():
    end = interrupts.End()  # before there are threads
    nodes = [Node(path) for path in sys.argv[1:]]
    for node in nodes:
        node.start()
    before = None
    while not end.wait(REPORT_S):
        held = sum(len(node.reconciler.held) for node in nodes)
        if held != before:
            print(f'holding {held}', flush=True)
            before = held
    for node in nodes:
        node.stop()


if __name__ == '__main__':
    main()

# SPDX-License-Identifier: Apache-2.0
"""Names of all that our processes show Prometheus.

Those of Python are asked for; of the health checker, which is another
program, the source says them.
"""

import collections
import pathlib
import re
import types
from unittest import mock

import prometheus_client

from octavia_xdp_provider.agent import listener_metrics
from octavia_xdp_provider.agent import metrics as agent_metrics
from octavia_xdp_provider.agent import totals
from octavia_xdp_provider.controller import metrics as controller_metrics
from octavia_xdp_provider.host import member_counters
from octavia_xdp_provider.host import metrics as host_metrics
from octavia_xdp_provider.process import loops
from octavia_xdp_provider.process import monitoring
from octavia_xdp_provider.process.agents import metrics as agents_metrics
from octavia_xdp_provider.proxy.agent import metrics as proxy_metrics
from octavia_xdp_provider.proxy.launcher import metrics as launcher_metrics
from octavia_xdp_provider.result_handler import metrics as handler_metrics

CHECKER = pathlib.Path(__file__).parents[3] / 'hc-agent/src/metrics.rs'
# Endings of the names of series by the type of the metric.
_SERIES = {'gauge': ('',), 'counter': ('_total',),
           'histogram': ('_bucket', '_count', '_sum')}
_FIELD = re.compile(r'^    (\w+): (?:Family<\w+, )?(\w+)', re.MULTILINE)
_REGISTERED = re.compile(
    r'register(_with_unit)?\(\s*"(\w+)",\s*"[^"]+",'
    r'(?:\s*Unit::(\w+),)?\s*self\.(\w+)\.clone')


def names():
    """Return the names of all series, as queries use them."""
    series = set(_of_checker())
    for registry in (_agent(), _controller(), _host(), _proxy(),
                     handler_metrics.Metrics().registry,
                     launcher_metrics.Metrics({}).registry):
        series.update(family.name + ending for family in registry.collect()
                      for ending in _SERIES[family.type])
    return series


def _agent():
    registry = prometheus_client.CollectorRegistry()
    agent_metrics.Metrics(registry)
    worker = mock.Mock(result=None)
    facts = mock.Mock()
    facts.active_flows.return_value = {}
    facts.total.return_value = totals.Total()
    facts.traffic.return_value = []
    link = mock.Mock(wanted=None, answered_at=0.0)
    parts = mock.Mock(uplinks=mock.Mock(ready=()),
                      processes=mock.Mock(work=dict))
    parts.announce.status.return_value = None
    parts.announce.wanted.return_value = {}
    registry.register(agent_metrics.Collector(parts, link, worker, facts))
    registry.register(listener_metrics.Collector(
        mock.Mock(), link, facts))
    # Every process has these, unlike the metrics above.
    registry.register(monitoring._Ages(loops.Loops(60)))
    monitoring._refused(registry)
    return registry


def _controller():
    registry = prometheus_client.CollectorRegistry()
    controller_metrics.Metrics(registry)
    store = mock.Mock()
    store.figures.count.return_value = mock.Mock(
        load_balancers={}, nodes=[], hypervisors=[])
    store.balance.in_one_zone.return_value = {}
    store.bundles.expiring.return_value = (0, 0, 0)
    registry.register(controller_metrics.Collector(
        store, lambda: True, mock.Mock()))
    return registry


def _host():
    registry = prometheus_client.CollectorRegistry()
    host_metrics.Metrics(registry)
    facts = mock.Mock(ports=(), entries=(), outcomes={}, drops={},
                      limits={}, read_at=0.0)
    registry.register(host_metrics.Collector(
        mock.Mock(answered_at=0.0), mock.Mock(
            held={}, facts=facts), types.SimpleNamespace(is_known=True),
        member_counters.Carried()))
    return registry


def _proxy():
    registry = prometheus_client.CollectorRegistry()
    agents_metrics.NodeMetrics(proxy_metrics.PREFIX, registry)
    registry.register(proxy_metrics.Collector(
        mock.Mock(wanted=None, answered_at=0.0),
        mock.Mock(held={}, launcher_problem=None)))
    return registry


def _of_checker():
    source = CHECKER.read_text()
    kinds = collections.defaultdict(set)
    for field, kind in _FIELD.findall(source):
        kinds[field].add(kind.removeprefix('Lateness').lower())
    registered = _REGISTERED.findall(source)
    if len(registered) != source.count('r.register'):
        raise ValueError(f'{CHECKER}: not all that is registered is known')
    for _unit, name, unit, field in registered:
        kind, = kinds[field] & _SERIES.keys()
        for ending in _SERIES[kind]:
            yield '_'.join(filter(None, (
                'octavia_xdp_hc', name, unit.lower()))) + ending

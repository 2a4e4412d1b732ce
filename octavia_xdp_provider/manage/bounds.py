# SPDX-License-Identifier: Apache-2.0
"""The command that lists limits of shared resources that are reached."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.controller.store import limits
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import projects

State = Mapping[str, Any]
Bound = tuple[str, str, str]  # limit, how far it is reached, what shows it

_SERVICES = 'octavia-xdp-ctl show services'
_NAT = 'octavia-xdp-manage node nat'
_PROJECTS = 'octavia-xdp-manage project list'
_PORTS = 'octavia-xdp-host show ports'
# Outcome of packets on an LB node → (the limit, where to see whose it is).
_OUTCOMES = {
    'flow_table_full': ('places for remembered flows', _SERVICES),
    'drop_nat_full': ('ports for NAT', _NAT),
    'nat_evicted': ('half-open flows of NAT', _NAT),
    'drop_rate': ('new_flow_rate', _SERVICES),
    'drop_connection_limit': ('connection_limit', _SERVICES),
    'drop_fragment': ('remembered fragments', _SERVICES),
    'fragment_guessed': ('remembered fragments', _SERVICES),
    'drop_too_big': ('answers of the node', 'octavia-xdp-ctl trace'),
}
# The same on a hypervisor, where reports name the ports with most.
_HOST_OUTCOMES = {
    'flows_full': 'confirmed flows',
    'half_open_evicted': 'half-open flows',
}


class List(command.List):
    """List the limits of shared resources that are reached.

    "reached" is a number of packets since the node's tables were created, by
    outcome, or how much of a table or a share is used, from 90 % on. "see"
    names the command that shows whose it is; octavia-xdp-ctl and
    octavia-xdp-host run on the node itself. The administrator's guide,
    "What tenants share", tells what happens at each limit.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        rows: list[tuple[str, ...]] = []
        for node in sorted(store.nodes.all(), key=lambda node: node.host):
            rows += ((node.host, *row) for row in _of_node(node.state or {}))
        for host in sorted(store.hypervisors.all(),
                           key=lambda host: host.host):
            rows += ((host.host, *row) for row in _of_hypervisor(
                host.state or {}))
        allowed = limits.of(self.conf)
        for usage in sorted(store.figures.usage_of_projects()):
            rows += ((f'project {usage.project}', f'[limits] {option}',
                      'at least 90 %', _PROJECTS)
                     for option in projects.at_limit(usage, allowed))
        return ('where', 'limit', 'reached', 'see'), rows


def _of_node(state: State) -> Iterator[Bound]:
    for name, (limit, see) in _OUTCOMES.items():
        packets = (state.get('outcomes') or {}).get(name, {}).get('packets')
        if packets:
            yield limit, f'{packets} packets ({name})', see
    for name in ('services', 'members'):
        yield from _filled(state, name, f'table of {name}', _PROJECTS)
    nat = state.get('nat') or {}
    for project, flows in sorted((nat.get('projects') or {}).items()):
        yield from _filled({'flows': flows, 'flows_max': nat.get('share')},
                           'flows', f'NAT ports of project {project}', _NAT)
    stretch = (state.get('health_checker') or {}).get('stretch_percent', 0)
    if stretch > 100:
        yield ('health checks a second', f'intervals at {stretch:.0f} %',
               _PROJECTS)


def _of_hypervisor(state: State) -> Iterator[Bound]:
    for name, limit in _HOST_OUTCOMES.items():
        if state.get(name):
            yield limit, f'{state[name]} packets ({name})', _PORTS
        for port_id, outcomes in (state.get('limited_ports') or {}).items():
            if outcomes.get(name):
                yield (f'{limit} of port {port_id}',
                       f'{outcomes[name]} packets ({name})', _PORTS)
    for name in ('entries', 'ports', 'flows'):
        yield from _filled(state, name, f'table of {name}', _PORTS)


def _filled(state: State, name: str, limit: str, see: str
            ) -> Iterator[Bound]:
    used, most = state.get(name), state.get(f'{name}_max')
    if used and projects.is_nearly_used(used, most or 0):
        yield limit, f'{used} of {most}', see

# SPDX-License-Identifier: Apache-2.0
"""Commands for LB nodes and proxy nodes."""

import argparse
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import lines
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import node_state
from octavia_xdp_provider.process import ages


def unknown(host: str) -> command.CommandError:
    return command.CommandError(
        f'node {host} is unknown; "octavia-xdp-manage node list" shows the '
        'registered ones')


def _row(node: rows.Node, conf: cfg.ConfigOpts, now: float,
         load: Mapping[str, int]) -> dict[str, Any]:
    """Return {column: value} of a node.

    :param now: the database's time, which ``last_seen`` uses.
    :param load: host → number of its load balancers that are not leaving.
    """
    state = node.state or {}
    return {
        'host': node.host,
        'role': node.role,
        'zone': node.zone,
        'alive': node_api.alive(node, conf.placement.node_timeout, now),
        'in_service': node.in_service,
        'condition': node.condition or 'unknown',
        'load_balancers': load.get(node.host, 0),
        'uplinks': node_state.uplinks(state),
        'last_report': (f'{ages.age(node.last_seen, now):.1f} s ago'
                        if node.last_seen else 'never'),
        'health_checker': node_state.health_checker(state),
        'problems': lines.Lines(node_state.problems(
            state,
            ages.age(node.last_seen, now) if node.last_seen else None,
            conf.placement.node_timeout))}


class List(command.List):
    """List LB nodes and proxy nodes, with the problems of each."""

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        now = store.database.now()
        load = store.placements.load()
        listed = [_row(node, self.conf, now, load)
                  for node in store.nodes.all()]
        columns = ('host', 'role', 'zone', 'alive', 'in_service',
                   'condition', 'load_balancers', 'uplinks', 'last_report',
                   'health_checker', 'problems')
        return columns, [[row[name] for name in columns] for row in
                         sorted(listed, key=lambda row: row['host'])]


class Show(names.HostArgument, command.Show):
    """Show a node, with everything that it reports about itself."""

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        for node in store.nodes.all():
            if node.host == arguments.host:
                row = {**_row(node, self.conf, store.database.now(),
                              store.placements.load()),
                       'proxy_addresses': lines.Lines(
                           list(node.proxy_addresses)),
                       'state': lines.Fields(node.state or {})}
                return list(row), list(row.values())
        raise unknown(arguments.host)


class Nat(command.List):
    """List the NAT pools and flows of LB nodes, by project.

    "flows" counts live flows; each uses a port, of which a project can have
    at most "share". "peers" counts the nodes that hand packets of flows on to
    each other, including this node; 0 if it does not. "pools" are registered
    ("node nat-pools"); "unregistered" ones are reported by the node and not
    used. "problem" is the reason if pools are not as configured.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        columns = ('host', 'pools', 'flows', 'ports', 'share', 'peers',
                   'projects', 'unregistered', 'problem')
        pools = []
        for node in sorted(self.store().nodes.all(), key=lambda row: row.host):
            state = (node.state or {}).get('nat') or {}
            pools.append([node.host, *(state.get(name)
                                      for name in columns[1:])])
        return columns, pools


class _SetInService(names.HostArgument, command.Command):
    in_service = True

    def take_action(self, arguments: argparse.Namespace) -> None:
        if not self.store().nodes.set_in_service(arguments.host,
                                                 self.in_service):
            raise unknown(arguments.host)


class Enable(_SetInService):
    """Put a disabled or drained node back into service."""


class Disable(_SetInService):
    """Take a node out of service.

    Its VIPs move to other nodes in service. While there are too few of these,
    the VIPs stay.
    """

    in_service = False

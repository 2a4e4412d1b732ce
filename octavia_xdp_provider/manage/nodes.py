# SPDX-License-Identifier: Apache-2.0
"""Commands about LB nodes."""

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import lines
from octavia_xdp_provider.manage import node_state


def add_host(parser):
    parser.add_argument('host', help='[DEFAULT] host of the node')


def unknown(host):
    return command.NotDone(
        f'node {host} is unknown; "octavia-xdp-manage node list" shows those '
        'that are there')


def _row(node, conf, now, load):
    """:param now: of the database, whose clock ``last_seen`` is of.

    :param load: host → load balancers on it that are not leaving.
    """
    state = node.state or {}
    return {
        'host': node.host,
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
    """List the LB nodes, with what does not work on each."""

    def take_action(self, arguments):
        store = self.store()
        now = store.now()
        load = store.load()
        rows = [_row(node, self.conf, now, load) for node in store.nodes()]
        columns = ('host', 'alive', 'in_service', 'condition',
                   'load_balancers', 'uplinks', 'last_report',
                   'health_checker', 'problems')
        return columns, [[row[name] for name in columns] for row in
                         sorted(rows, key=lambda row: row['host'])]


class Show(command.Show):
    """Show an LB node, with all that it reports of itself."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        add_host(parser)
        return parser

    def take_action(self, arguments):
        store = self.store()
        for node in store.nodes():
            if node.host == arguments.host:
                row = {**_row(node, self.conf, store.now(), store.load()),
                       'state': lines.Fields(node.state or {})}
                return list(row), list(row.values())
        raise unknown(arguments.host)


class Nat(command.List):
    """List what LB nodes do by NAT, and for whom.

    Flows are those that are alive; each has a port. A project has at most the
    share of them. Peers are the nodes that hand packets of flows on to each
    other, the node itself among them; 0: it does not. Pools are those that
    are registered ("node nat-pools"); others that the node reports are
    unregistered, and not used. A problem is why pools are not as configured.
    """

    def take_action(self, arguments):
        columns = ('host', 'pools', 'flows', 'ports', 'share', 'peers',
                   'projects', 'unregistered', 'problem')
        rows = []
        for node in sorted(self.store().nodes(), key=lambda one: one.host):
            state = (node.state or {}).get('nat') or {}
            rows.append([node.host, *(state.get(name)
                                      for name in columns[1:])])
        return columns, rows


class _SetInService(command.Command):
    in_service = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        add_host(parser)
        return parser

    def take_action(self, arguments):
        if not self.store().set_in_service(arguments.host, self.in_service):
            raise unknown(arguments.host)


class Enable(_SetInService):
    """Put an LB node back into service; also one that is drained."""


class Disable(_SetInService):
    """Take an LB node out of service.

    Its VIPs move to other nodes in service, and stay while there are too
    few of those.
    """

    in_service = False

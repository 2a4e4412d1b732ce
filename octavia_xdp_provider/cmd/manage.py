# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-manage: the operator's command on the control host."""

import argparse
import json
import sys
import time

from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.common import options
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema

PROGRAM = 'octavia-xdp-manage'


def _store(conf):
    manager = schema.context_manager(conf)
    schema.check(manager)
    return queries.Store(manager)


def database_upgrade(conf, arguments):
    """Bring the database to the newest version."""
    before, after = schema.upgrade(schema.context_manager(conf))
    print(f'database: {before or "empty"} -> {after}')
    return 0


def node_list(conf, arguments):
    """List the LB nodes."""
    rows = []
    for node in _store(conf).nodes():
        rows.append({
            'host': node.host,
            'alive': node_api.alive(node, conf.placement.node_timeout),
            'in_service': node.in_service,
            'seconds_since_report': round(time.time() - node.last_seen, 1),
            'state': node.state})
    return _show(arguments, rows, _NODE_COLUMNS)


def _show(arguments, rows, columns):
    """Print rows as JSON or as a table; the last column is as wide as it is.

    :param columns: tuples of title, width, and what makes a cell of a row.
    """
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    lines = [[title for title, _width, _cell in columns]]
    lines += [[cell(row) for _title, _width, cell in columns]
              for row in rows]
    for line in lines:
        cells = [f'{text:{width}}' for text, (_title, width, _cell)
                 in zip(line, columns, strict=True)]
        print(' '.join(cells).rstrip())
    return 0


def _uplinks(state):
    """How many uplinks a node uses, of how many that it has."""
    uplinks = (state or {}).get('uplinks')
    if uplinks is None:
        return '-'
    used = [one for one in uplinks if not one['problem'] and _goes_out(one)]
    return f'{len(used)}/{len(uplinks)}'


def _goes_out(uplink):
    """Whether packets of a family can leave by it."""
    if uplink.get('forwards') is not None:
        return bool(uplink['forwards'])
    return any(uplink[family]['mac'] and not uplink[family]['last_resort']
               for family in ('v4', 'v6'))


def _health_checker(state):
    """How the health checker of a node does, in a few words."""
    found = state.get('health_checker')
    if found is None:
        return 'no answer'
    stretch = found.get('stretch_percent', 0)
    late = f'{found.get("late_p99_ms", 0):.0f} ms late'
    if stretch > 100:
        return f'overloaded: intervals at {stretch} %, {late}'
    return f'{found.get("checks", 0)} checks, {late}'


def _yes(value):
    return 'yes' if value else 'no'


_NODE_COLUMNS = (
    ('HOST', 24, lambda row: row['host']),
    ('ALIVE', 6, lambda row: _yes(row['alive'])),
    ('IN SERVICE', 11, lambda row: _yes(row['in_service'])),
    ('UPLINKS', 8, lambda row: _uplinks(row['state'])),
    ('LAST REPORT', 14,
     lambda row: f'{row["seconds_since_report"]:.1f} s ago'),
    ('HEALTH CHECKER', 0, lambda row: _health_checker(row['state'] or {})),
)
_PLACEMENT_COLUMNS = (
    ('LOAD BALANCER', 36, lambda row: row['load_balancer']),
    ('VIP', 39, lambda row: row['vip'] or '-'),
    ('HOST', 20, lambda row: row['host']),
    ('WANTED', 7, lambda row: str(row['wanted_generation'] or '-')),
    ('SYNCED', 7, lambda row: str(row['synced_generation'])),
    ('STATE', 0, lambda row: row['error'] or (
        'leaving' if row['leaving'] else 'ok')),
)


def _node_service(in_service):
    def change(conf, arguments):
        if not _store(conf).set_in_service(arguments.host, in_service):
            sys.exit(f'{PROGRAM}: node {arguments.host} is unknown')
        return 0
    return change


def node_remove(conf, arguments):
    """Forget a node that will never come back."""
    if not _store(conf).remove_node(arguments.host):
        sys.exit(f'{PROGRAM}: node {arguments.host} is unknown')
    return 0


def placement_list(conf, arguments):
    """List which load balancer is on which node, and how far it is."""
    store = _store(conf)
    balancers = {row.id: row for row in store.load_balancers()}
    rows = []
    for row in store.placements():
        balancer = balancers.get(row.load_balancer_id)
        rows.append({
            'load_balancer': row.load_balancer_id,
            'vip': balancer.document['vip_address'] if balancer else None,
            'host': row.host,
            'wanted_generation': balancer.generation if balancer else None,
            'synced_generation': row.synced_generation,
            'leaving': row.removed_generation is not None,
            'error': row.error})
    return _show(arguments, rows, _PLACEMENT_COLUMNS)


def placement_allow_removals(conf, arguments):
    """Let VIPs leave failed nodes beyond the budget of removals."""
    if arguments.count < 1:
        sys.exit(f'{PROGRAM}: --count is {arguments.count}; use 1 or more')
    _store(conf).allow_removals(arguments.count,
                                conf.placement.removal_budget_span)
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument('--config-file', action='append',
                        help='configuration file to read')
    topics = parser.add_subparsers(required=True, metavar='TOPIC')

    def topic(name, text):
        return topics.add_parser(name, help=text).add_subparsers(
            required=True, metavar='ACTION')

    def action(parent, name, function, text, host=False, listing=False):
        command = parent.add_parser(name, help=text)
        command.set_defaults(function=function)
        if host:
            command.add_argument('host')
        if listing:
            command.add_argument('--json', action='store_true',
                                 help='for programs')
        return command

    database = topic('database', 'the controller\'s database')
    action(database, 'upgrade', database_upgrade, database_upgrade.__doc__)
    node = topic('node', 'LB nodes')
    action(node, 'list', node_list, node_list.__doc__, listing=True)
    action(node, 'disable', _node_service(False),
           'Take a node out of service: its VIPs move to other nodes in '
           'service, and stay while there are too few of those.',
           host=True)
    action(node, 'enable', _node_service(True),
           'Put a node back into service.', host=True)
    action(node, 'remove', node_remove, node_remove.__doc__, host=True)
    placement = topic('placement', 'which VIP is on which node')
    action(placement, 'list', placement_list, placement_list.__doc__,
           listing=True)
    allow = action(placement, 'allow-removals', placement_allow_removals,
                   placement_allow_removals.__doc__)
    allow.add_argument('--count', type=int, required=True,
                       help='how many, as the controller\'s log says')
    return parser


def main():
    arguments = _parser().parse_args()
    try:
        conf = options.load(config_files=arguments.config_file,
                            prog=PROGRAM)
        return arguments.function(conf, arguments)
    except (option_values.ConfigurationError, schema.SchemaError) as error:
        sys.exit(f'{PROGRAM}: {error}')


if __name__ == '__main__':
    sys.exit(main())

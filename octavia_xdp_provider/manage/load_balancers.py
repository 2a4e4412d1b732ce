# SPDX-License-Identifier: Apache-2.0
"""Commands about load balancers, as the provider has them."""

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.common import connections
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import lines
from octavia_xdp_provider.manage import load_balancer_problems
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import placement_state
from octavia_xdp_provider.manage import waiting


def _state(balancer, mine):
    """In a word, what is to be known of a load balancer."""
    if balancer.deleted:
        return 'deleting'
    if balancer.pending is not None:
        return 'pending'
    if not mine:
        return 'without a node'
    states = {placement_state.word(row, balancer) for row in mine}
    if connections.without_effect(balancer.document):
        states.add('limit without effect')
    for word in ('failing', 'loading', 'leaving', 'draining',
                 'limit without effect'):
        if word in states:
            return word
    return 'ok'


def _sent(balancer):
    """The operating status that Octavia was last sent."""
    return balancer.sent_statuses.get(('loadbalancer', balancer.id), '')


def _problems(conf, store):
    """(balancer, placements) → what is wrong with it, texts."""
    now = store.now()
    silence_s = {node.host: ages.age(node.last_seen, now)
                 for node in store.nodes() if node.last_seen}
    scheduler = service.Scheduler(conf, store)
    return lambda balancer, mine: load_balancer_problems.problems(
        balancer, mine, silence_s, lambda: scheduler.refusals(balancer))


class List(command.List):
    """List load balancers, with the nodes that they are on.

    "state" is ok, pending (a change waits for Octavia's commit), loading,
    failing, draining or leaving (on some node), deleting, "without a node",
    or "limit without effect"; "problems" says why it is not ok, and on which
    node.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--node', metavar='HOST',
                            help='on this node only')
        parser.add_argument('--project', metavar='ID',
                            help='of this project only')
        parser.add_argument('--problems', action='store_true',
                            help='only those whose state is not ok')
        return parser

    def take_action(self, arguments):
        store = self.store()
        placements = placement_state.by_load_balancer(store.placements())
        problems = _problems(self.conf, store)
        found = []
        for balancer in store.load_balancers():
            mine = placements.get(balancer.id, ())
            state = _state(balancer, mine)
            document = balancer.document
            if ((arguments.node and arguments.node not in {
                    row.host for row in mine})
                    or (arguments.project and arguments.project
                    != document.get('project_id'))
                    or (arguments.problems and state == 'ok')):
                continue
            found.append((
                balancer.id, document.get('name'),
                lines.Lines(spec.vips(document)),
                lines.Lines([row.host for row in mine]), _sent(balancer),
                state, lines.Lines(problems(balancer, mine))))
        return ('id', 'name', 'vips', 'nodes', 'operating_status', 'state',
                'problems'), sorted(found, key=lambda row: row[0])


class Show(command.Show):
    """Show a load balancer: what is wanted, and how far each node is."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        names.add_load_balancer(parser)
        return parser

    def take_action(self, arguments):
        store = self.store()
        balancer = names.load_balancer(store, arguments.load_balancer)
        document = balancer.document
        mine = store.placements([balancer.id])
        pending = (balancer.pending or {}).get('change') or {}
        row = {
            'id': balancer.id, 'name': document.get('name'),
            'project_id': document.get('project_id'),
            'admin_state_up': document['admin_state_up'],
            'state': _state(balancer, mine),
            'problems': lines.Lines(_problems(self.conf, store)(
                balancer, mine)),
            'operating_status': _sent(balancer),
            'generation': balancer.generation,
            'vips': lines.Lines(spec.vips(document)),
            'flavor': lines.Lines([document['flavor']] if document['flavor']
                            else []),
            'pending_change': ' '.join(
                str(pending[name]) for name in (
                    'action', 'object', 'object_id') if name in pending)
            or ('delete' if balancer.pending else ''),
            'waits_for_active': len(balancer.unconfirmed),
            'waits_for_deleted': len(balancer.removed),
            'is_in_work_queue': bool(store.marked([balancer.id])),
            'nodes': lines.Lines([{
                'host': one.host,
                'state': placement_state.word(one, balancer),
                'generation': one.synced_generation,
                'announced': one.announced, 'error': one.error,
                'members_up': sum(state == 'up' for state
                                  in (one.members or {}).values()),
                'members_down': sum(state == 'down' for state
                                    in (one.members or {}).values()),
            } for one in mine]),
            'refused_by': lines.Lines([{
                'host': host, 'because': why} for host, why
                in service.Scheduler(self.conf, store).refusals(
                    balancer).items()
                if host not in {one.host for one in mine}]),
            'listeners': lines.Lines([{
                'id': key, 'name': one.get('name'),
                'protocol': one['protocol'], 'port': one['protocol_port'],
                'pool': one['default_pool_id']}
                for key, one in document['listeners'].items()]),
            'pools': lines.Lines([{
                'id': key, 'name': one.get('name'),
                'protocol': one['protocol'], 'members': len(one['members']),
                'health_monitor': (one['healthmonitor'] or {}).get('type')}
                for key, one in document['pools'].items()])}
        return list(row), list(row.values())


class Move(command.Command):
    """Move a load balancer from one node to another.

    The new node loads and announces it first; then the old one drains it for
    [placement] drain_time and gives it up. If the new node cannot do it
    within [controller] status_timeout, it stays where it is. Where the nodes
    are balanced automatically, the load may be evened out again later.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        names.add_load_balancer(parser)
        parser.add_argument('--from', dest='source', required=True,
                            metavar='HOST', help='node that it leaves')
        parser.add_argument('--to', dest='target', required=True,
                            metavar='HOST', help='node that takes it over')
        waiting.add_arguments(parser)
        return parser

    def take_action(self, arguments):
        store = self.store()
        balancer = names.load_balancer(store, arguments.load_balancer)
        source, target = arguments.source, arguments.target
        try:
            service.Scheduler(self.conf, store).move(balancer, source, target)
        except service.MoveRefused as error:
            raise command.NotDone(
                f'load balancer {balancer.id} is not moved: {error}'
            ) from error
        if not arguments.wait:
            return

        def left():
            return [row for row in store.placements([balancer.id])
                    if row.host == source]
        waiting.until_none(
            self.app, f'leaving {source}', left, arguments.timeout,
            lambda rows: (
                f'load balancer {balancer.id} is still on {source}; see '
                f'"octavia-xdp-manage lb show {balancer.id}"'))
        if target not in {row.host for row
                          in store.placements([balancer.id])}:
            raise command.NotDone(
                f'load balancer {balancer.id} has left {source}, but is not '
                f'on {target}: it was placed anew meanwhile')

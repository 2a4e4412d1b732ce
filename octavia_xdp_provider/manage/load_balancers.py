# SPDX-License-Identifier: Apache-2.0
"""Commands for load balancers, as the provider stores them."""

import argparse
from collections.abc import Callable
from collections.abc import Sequence
import functools

from oslo_config import cfg

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers
from octavia_xdp_provider.controller import proxies
from octavia_xdp_provider.controller.scheduler import service
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import lines
from octavia_xdp_provider.manage import load_balancer_problems
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import placement_state
from octavia_xdp_provider.manage import secrets
from octavia_xdp_provider.manage import waiting
from octavia_xdp_provider.manage import zone_spread
from octavia_xdp_provider.process import ages

_WITHOUT: dict[str, str] = {rows.LB: 'without a node',
                            rows.PROXY: 'without a proxy node'}


def _state(load_balancer: rows.LoadBalancer,
           placements: Sequence[rows.Placement],
           zones: zone_spread.Zones) -> str:
    """Return the load balancer's state, the worst of its placements'."""
    if load_balancer.deleted:
        return 'deleting'
    if load_balancer.pending is not None:
        return 'pending'
    lacking = load_balancer_problems.lacking_role(load_balancer, placements)
    if lacking is not None:
        return _WITHOUT[lacking]
    states = {placement_state.classify(placement, load_balancer)
              for placement in placements}
    if not proxies.is_settled(load_balancer.document):
        states.add('loading')
    for state in ('failing', 'loading', 'leaving', 'draining'):
        if state in states:
            return state
    return zones.state(load_balancer, placements) or 'ok'


def _sent_status(load_balancer: rows.LoadBalancer) -> str:
    """Return the operating status that was last sent to Octavia."""
    return load_balancer.sent_statuses.get(
        ('loadbalancer', load_balancer.id), '')


def _judge(conf: cfg.ConfigOpts, store: queries.Store
           ) -> Callable[[rows.LoadBalancer, Sequence[rows.Placement]],
                         tuple[str, list[str]]]:
    """Return a function: (load balancer, placements) → (state, problems)."""
    now, nodes = store.database.now(), store.nodes.all()
    silence_s = {node.host: ages.age(node.last_seen, now)
                 for node in nodes if node.last_seen}
    zones = zone_spread.Zones(conf.placement, nodes)
    scheduler = service.Scheduler(conf, store)
    get_decider = functools.cache(scheduler.current_decider)

    def judge(load_balancer: rows.LoadBalancer,
              placements: Sequence[rows.Placement]
              ) -> tuple[str, list[str]]:
        state = _state(load_balancer, placements, zones)

        def get_refusals(role: rows.Role) -> dict[str, str]:
            return scheduler.refusals(load_balancer, get_decider, [role])
        if state in (zone_spread.IN_ONE_ZONE, zone_spread.TOO_FEW_ZONES):
            return state, [zones.describe(load_balancer, placements,
                                          get_refusals)]
        return state, load_balancer_problems.problems(
            load_balancer, placements, silence_s, get_refusals)
    return judge


class List(command.List):
    """List load balancers, with the nodes that they are on.

    "state" is ok, pending (a change waits for Octavia's commit), loading,
    failing, draining or leaving (on some node), deleting, "without a node",
    "without a proxy node", or, with [placement] spread or the flavor's, "in
    one zone" or "too few zones"; "problems" has the reason if it is not ok,
    and the node.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        names.add_filters(parser)
        parser.add_argument('--problems', action='store_true',
                            help='only load balancers whose state is not ok')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        all_placements = placement_state.by_load_balancer(
            store.placements.select())
        judge = _judge(self.conf, store)
        listed = []
        for load_balancer in store.load_balancers.select():
            placements = all_placements.get(load_balancer.id, ())
            hosts = [placement.host for placement in placements]
            document = load_balancer.document
            if ((arguments.node and arguments.node not in hosts)
                    or (arguments.project and arguments.project
                        != document.get('project_id'))):
                continue
            state, problems = judge(load_balancer, placements)
            if arguments.problems and state == 'ok':
                continue
            listed.append((
                load_balancer.id, document.get('name'),
                lines.Lines(spec.vips(document)), lines.Lines(hosts),
                _sent_status(load_balancer), state,
                lines.Lines(problems)))
        return ('id', 'name', 'vips', 'nodes', 'operating_status', 'state',
                'problems'), sorted(listed, key=lambda row: row[0])


class Show(names.LoadBalancerArgument, command.Show):
    """Show a load balancer: what is wanted, and how far each node is.

    "tier" of a listener is what serves it: the datapath of LB nodes, or proxy
    nodes. "weight" of a proxy node is 0 while it gets no new connections.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        load_balancer = names.find_load_balancer(
            store, arguments.load_balancer)
        document = load_balancer.document
        placements = store.placements.select([load_balancer.id])
        zones = store.nodes.zones()
        weights = {host: node['weight'] for host, node in document.get(
            'proxies', {'nodes': {}})['nodes'].items()}
        pending = (load_balancer.pending or {}).get('change') or {}
        state, problems = _judge(self.conf, store)(load_balancer, placements)
        row = {
            'id': load_balancer.id, 'name': document.get('name'),
            'project_id': document.get('project_id'),
            'admin_state_up': document['admin_state_up'],
            'state': state, 'problems': lines.Lines(problems),
            'operating_status': _sent_status(load_balancer),
            'generation': load_balancer.generation,
            'vips': lines.Lines(spec.vips(document)),
            'flavor': lines.Lines([document['flavor']] if document['flavor']
                                  else []),
            'pending_change': ' '.join(
                str(pending[name]) for name in (
                    'action', 'object', 'object_id') if name in pending)
            or ('delete' if load_balancer.pending else ''),
            'waits_for_active': len(load_balancer.unconfirmed),
            'waits_for_deleted': len(load_balancer.removed),
            'is_in_work_queue': bool(store.work.marked([load_balancer.id])),
            'nodes': lines.Lines([{
                'host': placement.host, 'role': placement.role,
                'state': placement_state.classify(placement, load_balancer),
                'generation': placement.synced_generation,
                'zone': zones.get(placement.host),
                'announced': (placement.announced
                              if placement.role == rows.LB else None),
                'weight': weights.get(placement.host),
                'error': placement.error,
                'members_up': _count_members(placement, 'up'),
                'members_down': _count_members(placement, 'down'),
            } for placement in placements]),
            'refused_by': lines.Lines([{
                'host': host, 'because': why} for host, why
                in service.Scheduler(self.conf, store).refusals(
                    load_balancer).items()
                if host not in {row.host for row in placements}]),
            'listeners': lines.Lines([{
                'id': key, 'name': listener.get('name'),
                'protocol': listener['protocol'],
                'port': listener['protocol_port'],
                'tier': tiers.tier(document, key),
                'pool': listener['default_pool_id']}
                for key, listener in document['listeners'].items()]),
            'pools': lines.Lines([{
                'id': key, 'name': pool.get('name'),
                'protocol': pool['protocol'],
                'members': len(pool['members']),
                'health_monitor': pool['healthmonitor'] and
                pool['healthmonitor']['type']}
                for key, pool in document['pools'].items()]),
            'certificates': lines.Lines([
                secrets.describe(bundle) for bundle
                in store.bundles.describe(load_balancer.id)])}
        return list(row), list(row.values())


def _count_members(placement: rows.Placement, state: str) -> int:
    """Return how many members the node reports in a state."""
    return list((placement.members or {}).values()).count(state)


class Move(names.LoadBalancerArgument, command.Command):
    """Move a load balancer from one node to another.

    The new node loads and announces it first; then the old node drains it for
    [placement] drain_time and gives it up. If the new node does not announce
    it within [controller] status_timeout, it stays where it is. Automatic
    rebalancing, where enabled, may move it again later.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--from', dest='source', required=True,
                            metavar='HOST', help='node to move it from')
        parser.add_argument('--to', dest='target', required=True,
                            metavar='HOST', help='node to move it to')
        waiting.add_arguments(parser)
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        store = self.store()
        row = names.find_load_balancer(store, arguments.load_balancer)
        key, source, target = row.id, arguments.source, arguments.target
        try:
            service.Scheduler(self.conf, store).move(row, source, target)
        except service.MoveRefused as error:
            raise command.CommandError(
                f'load balancer {key} is not moved: {error}') from error
        if not arguments.wait:
            return
        waiting.until_none(
            self.app, f'leaving {source}', lambda: [
                placement for placement in store.placements.select([key])
                if placement.host == source],
            arguments.timeout, lambda _: (
                f'load balancer {key} is still on {source}; see '
                f'"octavia-xdp-manage lb show {key}"'))
        if target not in {placement.host for placement
                          in store.placements.select([key])}:
            raise command.CommandError(
                f'load balancer {key} has left {source}, but is not on '
                f'{target}: the scheduler has placed it again meanwhile')

# SPDX-License-Identifier: Apache-2.0
"""Compares the state of the deployment with what Octavia has committed.

The state is Octavia's statuses, the database, and each node's documents,
services, checks and routes.
"""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import status
from octavia_xdp_provider.controller.store import models


class Agreement:
    """The differences, once nothing changes any more.

    :param world: world.World, after it has settled.
    :ivar problems: descriptions of differences.
    """

    def __init__(self, world):
        self._world = world
        self._octavia = world.octavia
        self._documents = {key: self._octavia.alive(key)
                           for key in self._octavia.trees}
        self.problems = list(self._octavia.wrong)
        self._placed = {}
        for check in (self._compare_statuses, self._compare_rows,
                      self._compare_reserved, self._compare_placements,
                      self._compare_nodes, self._compare_operating):
            check()

    def _equal(self, what, expected, observed):
        if expected != observed:
            self.problems.append(
                f'{what}: expected {expected}, observed {observed}')

    def _compare_statuses(self):
        for key, tree in self._octavia.trees.items():
            self._equal(f'provisioning of {key}', {}, {
                name: value for name, value in tree.items()
                if value != 'ACTIVE'})

    def _compare_rows(self):
        rows = {row.id: row
                for row in self._world.store.load_balancers.select()}
        self._equal('load balancers', sorted(self._documents), sorted(rows))
        for key in self._documents.keys() & rows.keys():
            row = rows[key]
            self._equal(f'document of {key}', self._documents[key],
                        row.document)
            self._equal(f'pending changes of {key}', (None, False, (), ()), (
                row.pending, row.deleted, row.removed, row.unconfirmed))
        with self._world.store.database.read() as session:
            self._equal('work', [], [
                (row.load_balancer_id, row.due_at) for row
                in session.query(models.Work)])

    def _compare_reserved(self):
        for table, addresses in (
                (models.Vip, lambda document: set(spec.vips(document))),
                (models.MemberAddress, spec.member_addresses)):
            with self._world.store.database.read() as session:
                reserved = {(row.load_balancer_id, row.address)
                         for row in session.query(table)}
            self._equal(table.__tablename__, {
                (key, address) for key, document in self._documents.items()
                for address in addresses(document)}, reserved)

    def _compare_placements(self):
        rows = self._world.store.placements.select()
        self._equal('removals', [], [
            (row.load_balancer_id, row.host) for row in rows
            if row.removed_generation is not None])
        self._placed = {host: {
            row.load_balancer_id for row in rows
            if row.host == host and row.removed_generation is None}
            for host in self._world.nodes}
        for key in self._documents:
            self._equal(f'nodes of {key}', self._world.conf.placement.replicas,
                        sum(key in placed for placed in self._placed.values()))
            self._equal(f'zones of {key}', ['east', 'west'], sorted(
                zone for host, zone in self._world.zones.items()
                if key in self._placed[host]))
        self._equal('placements of unknown load balancers', set(), {
            row.load_balancer_id for row in rows} - self._documents.keys())

    def _compare_nodes(self):
        for host, node in self._world.nodes.items():
            documents = {key: self._documents[key]
                         for key in self._placed[host]
                         if key in self._documents}
            self._equal(f'documents of {host}', {
                key: spec.for_node(document)
                for key, document in documents.items()}, node.documents())
            services, checks, routes = {}, {}, set()
            for key, document in documents.items():
                for name, members in self._services(document):
                    services[name] = members
                    if any(weight and enabled and up for
                           _, weight, enabled, up in members):
                        routes.add(name[0])
                if probes := self._checks(document):
                    checks[key] = probes
            self._equal(f'services of {host}', services, node.services())
            self._equal(f'checks of {host}', checks, node.checks())
            self._equal(f'routes of {host}', routes, node.routes())

    def _services(self, document):
        for _, listener, pool in spec.forwarded(document):
            yield (document['vip_address'], 'TCP',
                   listener['protocol_port']), {
                (member['address'], member['weight'],
                 member['admin_state_up'], self._is_up(pool, member))
                for member in pool['members'].values()}

    def _is_up(self, pool, member):
        return not (_is_checked(pool, member)
                    and member['address'] in self._world.dead_members)

    @staticmethod
    def _checks(document):
        return {('tcp', member['address'], member['protocol_port'])
                for _, _, pool in spec.forwarded(document)
                for member in pool['members'].values()
                if _is_checked(pool, member)}

    def _compare_operating(self):
        for key, document in self._documents.items():
            members = {
                name: 'up' if self._is_up(pool, member) else 'down'
                for _, _, pool in spec.forwarded(document)
                for name, member in pool['members'].items()
                if _is_checked(pool, member)}
            views = [status.NodeView(host, True, True, announced=True,
                                     members=members)
                     for host, placed in self._placed.items()
                     if key in placed]
            for name, wanted in status.operating_statuses(
                    document, views).items():
                self._equal(f'operating status of {name}', wanted,
                            self._octavia.operating(name[1]))


def _is_checked(pool, member):
    monitor = pool['healthmonitor']
    return bool(monitor and monitor['admin_state_up']
                and member['admin_state_up'])

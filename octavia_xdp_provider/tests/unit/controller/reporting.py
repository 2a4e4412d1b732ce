# SPDX-License-Identifier: Apache-2.0
"""Nodes that report to a controller's endpoint."""

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

UP = {'m1': 'up'}


def held(generation, error=None, members=UP, announced=True):
    return {'generation': generation, 'error': error, 'members': members,
            'announced': announced}


def report(as_of=9, complete=True, **more):
    return {'as_of': as_of, 'complete': complete, 'held': {}, 'gone': [],
            'counters': {}, 'state': None, **more}


class NodeApiTestCase(store_base.StoreTestCase):

    def setUp(self):
        super().setUp()
        self.touched = []
        self.appeared = []
        self.api = node_api.NodesEndpoint(
            self.store, lambda host, ids, held: self.touched.append(ids),
            lambda: self.appeared.append(1))
        self.store.load_balancers.create(base.document())
        self.store.load_balancers.create(self.other())
        for host, key in (('a', 'lb'), ('b', 'other')):
            self.store.nodes.register(host)
            self.store.placements.place(key, add=[host])

    def other(self):
        tree = base.tree(vip_address='203.0.113.11')
        tree['listeners'] = {'foreign': dict(tree['listeners']['listener'],
                                             default_pool_id='pool2')}
        tree['pools'] = {'pool2': tree['pools']['pool']}
        return spec.document('other', tree)

    def placement(self, key='lb'):
        placement, = self.store.placements.select([key])
        return placement

    def take(self, epoch, seq, host='a', **more):
        return self.api.report({}, host, epoch, seq, report(**more))

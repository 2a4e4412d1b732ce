# SPDX-License-Identifier: Apache-2.0
"""Changes as the driver requests them of the store."""

import uuid

from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base


def created(key='lb', **fields):
    return {'object': 'loadbalancer', 'action': 'create', 'object_id': key,
            'load_balancer_id': key, 'fields': base.tree(**fields)}


def deleted(key='lb'):
    return {'object': 'loadbalancer', 'action': 'delete', 'object_id': key,
            'load_balancer_id': key}


def member(action, key='m3', **more):
    return dict({'object': 'member', 'action': action, 'object_id': key,
                 'pool_id': 'pool'}, **more)


ADDED = member('create', fields=base.member('198.18.10.13'))


class RequestsTestCase(store_base.StoreTestCase):

    def request(self, change, request=None, seconds=30):
        return self.store.requests.add(
            change, request or str(uuid.uuid4()),
            self.store.database.now() + seconds).load_balancer_id

    def pending(self, key='lb'):
        row = self.store.load_balancers.get(key)
        return row and row.pending

    def work(self):
        with self.store.database.read() as session:
            return {key for key, in session.query(
                models.Work.load_balancer_id)}

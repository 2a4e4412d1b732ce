# SPDX-License-Identifier: Apache-2.0
"""An SCTP member with another port than its listener, in each order in which
users of the API can come to it: nobody rewrites ports of SCTP."""

import uuid

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

LISTENER = {'protocol': 'SCTP', 'protocol_port': 80}
GOOD = base.member('198.18.10.11')
BAD = base.member('198.18.10.11', protocol_port=8080)


def pool(**members):
    return {'protocol': 'SCTP', 'lb_algorithm': 'SOURCE_IP_PORT',
            'members': members}


class TestOrders(store_base.StoreTestCase):

    def request(self, change):
        validation.check_change(change)
        request = str(uuid.uuid4())
        stored = self.store.request(change, request, self.store.now() + 30)
        self.store.promote(stored.load_balancer_id, request)

    def begin(self, member_port='rewrite', **objects):
        tree = base.tree(flavor={'member_port': member_port}, listeners={},
                         pools={})
        self.request({'object': 'loadbalancer', 'action': 'create',
                      'object_id': 'lb', 'load_balancer_id': 'lb',
                      'fields': {**tree, **objects}})

    def check(self, change, **good):
        """The change is refused, and the one that differs in ``good`` is
        not."""
        error = self.assertRaises(errors.Refused, self.request, change)
        self.assertEqual('protocol_port', error.option)
        self.assertIn('8080', error.why)
        self.assertIn('checksum', error.why)
        self.assertIn('let the member listen on the listener\'s port',
                      error.instead)
        self.request({**change, **good})

    def test_creation_with_all_objects_is_checked(self):
        for member_port in ('rewrite', 'rewrite_on_member', 'same'):
            error = self.assertRaises(
                errors.Refused, self.begin, member_port,
                pools={'p': pool(m=BAD)},
                listeners={'l': {**LISTENER, 'default_pool_id': 'p'}})
            self.assertIn('checksum', error.why)
        self.begin(pools={'p': pool(m=GOOD)},
                   listeners={'l': {**LISTENER, 'default_pool_id': 'p'}})

    def test_listener_of_an_existing_pool_is_checked(self):
        self.begin(pools={'p': pool(m=BAD)})
        change = {'object': 'listener', 'action': 'create', 'object_id': 'l',
                  'load_balancer_id': 'lb',
                  'fields': {**LISTENER, 'default_pool_id': 'p'}}
        self.check(change, fields={**change['fields'],
                                   'protocol_port': 8080})

    def test_listener_with_its_pool_is_checked(self):
        change = {'object': 'listener', 'action': 'create', 'object_id': 'l',
                  'load_balancer_id': 'lb', 'pools': {'p': pool(m=BAD)},
                  'fields': {**LISTENER, 'default_pool_id': 'p'}}
        self.begin()
        self.check(change, pools={'p': pool(m=GOOD)})

    def test_pool_attached_later_is_checked(self):
        self.begin(pools={'bad': pool(m=BAD), 'good': pool(m=GOOD)},
                   listeners={'l': LISTENER})
        self.check({'object': 'listener', 'action': 'update',
                    'object_id': 'l', 'load_balancer_id': 'lb',
                    'fields': {'default_pool_id': 'bad'}},
                   fields={'default_pool_id': 'good'})

    def test_pool_created_for_its_listener_is_checked(self):
        self.begin(listeners={'l': LISTENER})
        self.check({'object': 'pool', 'action': 'create', 'object_id': 'p',
                    'load_balancer_id': 'lb', 'listener_id': 'l',
                    'fields': pool(m=BAD)}, fields=pool(m=GOOD))

    def forwarding(self):
        self.begin(pools={'p': pool(m=GOOD)},
                   listeners={'l': {**LISTENER, 'default_pool_id': 'p'}})

    def test_member_added_later_is_checked(self):
        self.forwarding()
        other = dict(BAD, address='198.18.10.12')
        self.check({'object': 'member', 'action': 'create',
                    'object_id': 'm2', 'pool_id': 'p', 'fields': other},
                   fields=dict(other, protocol_port=80))

    def test_member_update_is_checked(self):
        """Octavia does not allow changes of a port; the provider refuses them
        as well."""
        self.forwarding()
        self.check({'object': 'member', 'action': 'update', 'object_id': 'm',
                    'pool_id': 'p', 'fields': {'protocol_port': 8080}},
                   fields={'weight': 5})

    def test_batch_of_members_is_checked(self):
        self.forwarding()
        self.check({'object': 'member', 'action': 'replace',
                    'object_id': None, 'pool_id': 'p',
                    'members': {'m': GOOD, 'm2': dict(
                        BAD, address='198.18.10.12')}},
                   members={'m': GOOD})

# SPDX-License-Identifier: Apache-2.0
"""A member of an SCTP listener has the listener's port, in whichever way
users of the API can come to it: nobody rewrites ports of SCTP."""

import uuid

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import base as store_base

LISTENER = {'protocol': 'SCTP', 'protocol_port': 80}
GOOD = base.member('198.18.10.11')
BAD = base.member('198.18.10.11', protocol_port=8080)
OTHER = dict(BAD, address='198.18.10.12')


def pool(**members):
    return {'protocol': 'SCTP', 'lb_algorithm': 'SOURCE_IP_PORT',
            'members': members}


def change(kind, action, key, **more):
    parent = ({'pool_id': 'p'} if kind == 'member'
              else {'load_balancer_id': 'lb'})
    return {'object': kind, 'action': action, 'object_id': key, **parent,
            **more}


BOUND = {**LISTENER, 'default_pool_id': 'p'}
FORWARDING = {'pools': {'p': pool(m=GOOD)}, 'listeners': {'l': BOUND}}
# Objects that there are, a change that is refused, and what of it differs in
# one that is not.
CASES = {
    'listener of an existing pool': (
        {'pools': {'p': pool(m=BAD)}},
        change('listener', 'create', 'l', fields=BOUND),
        {'fields': {**BOUND, 'protocol_port': 8080}}),
    'listener with its pool': (
        {}, change('listener', 'create', 'l', fields=BOUND,
                   pools={'p': pool(m=BAD)}),
        {'pools': {'p': pool(m=GOOD)}}),
    'pool attached later': (
        {'pools': {'bad': pool(m=BAD), 'good': pool(m=GOOD)},
         'listeners': {'l': LISTENER}},
        change('listener', 'update', 'l', fields={'default_pool_id': 'bad'}),
        {'fields': {'default_pool_id': 'good'}}),
    'pool created for its listener': (
        {'listeners': {'l': LISTENER}},
        change('pool', 'create', 'p', listener_id='l', fields=pool(m=BAD)),
        {'fields': pool(m=GOOD)}),
    'member added later': (
        FORWARDING, change('member', 'create', 'm2', fields=OTHER),
        {'fields': dict(OTHER, protocol_port=80)}),
    # Octavia allows no change of a port; the provider refuses it as well.
    'member updated': (
        FORWARDING,
        change('member', 'update', 'm', fields={'protocol_port': 8080}),
        {'fields': {'weight': 5}}),
    'batch of members': (
        FORWARDING, change('member', 'replace', None,
                           members={'m': GOOD, 'm2': OTHER}),
        {'members': {'m': GOOD}}),
}


class TestSctpPorts(store_base.StoreTestCase):

    def request(self, change):
        validation.check_change(change)
        request = str(uuid.uuid4())
        stored = self.store.requests.add(change, request,
                                         self.store.database.now() + 30)
        self.store.load_balancers.promote(stored.load_balancer_id, request)

    def create(self, member_port='rewrite', **objects):
        tree = base.tree(flavor={'member_port': member_port}, listeners={},
                         pools={})
        self.request(change('loadbalancer', 'create', 'lb',
                            fields={**tree, **objects}))

    def refused(self, function, *arguments, **more):
        error = self.assertRaises(errors.Refused, function, *arguments,
                                  **more)
        self.assertEqual('protocol_port', error.option.rpartition('.')[2])
        self.assertIn('8080', error.why)
        self.assertIn('checksum', error.why)
        self.assertIn('let the member listen on the listener\'s port',
                      error.instead)

    def test_creation_with_all_objects_is_checked(self):
        for member_port in ('rewrite', 'rewrite_on_member', 'same'):
            self.refused(self.create, member_port, **{
                **FORWARDING, 'pools': {'p': pool(m=BAD)}})

    def test_each_change_is_checked(self):
        for name, (objects, bad, good) in CASES.items():
            with self.subTest(name):
                self.renew()
                self.create(**objects)
                self.refused(self.request, bad)
                self.request({**bad, **good})

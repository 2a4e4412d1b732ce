# SPDX-License-Identifier: Apache-2.0
"""Addresses of VIPs and members exclude each other."""

import json

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.controller import requesting


class TestAddresses(requesting.RequestsTestCase):
    """A VIP is never a member, in whichever order they come."""

    def small(self, key, vip, *members, **more):
        """A load balancer with these members."""
        return requesting.created(key, vip_address=vip, listeners={}, pools={
            f'pool-{key}': {
                'protocol': 'TCP', 'lb_algorithm': 'SOURCE_IP_PORT',
                'members': {f'm{number}': base.member(address, **more)
                            for number, address in enumerate(members)}}})

    def promote(self, key):
        with self.store._write() as session:
            row = session.get(models.LoadBalancer, key)
            self.store._set_document(
                session, row, json.loads(row.pending)['expected'],
                self.store._next_generation(session))
            row.pending = None

    def test_vip_has_one_load_balancer(self):
        self.request(self.small('one', '203.0.113.10'))
        self.assertRaises(errors.Conflict, self.request,
                          self.small('two', '203.0.113.10'))
        self.assertIsNone(self.store.load_balancer('two'))

    def test_vip_is_free_once_its_load_balancer_is_deleted(self):
        self.request(self.small('one', '203.0.113.10'))
        self.promote('one')
        self.store.delete('one')
        self.request(self.small('two', '203.0.113.10'))

    def test_member_cannot_be_a_vip(self):
        self.request(self.small('one', '203.0.113.10', '198.18.10.11'))
        for more in ({}, {'monitor_address': '203.0.113.10'}):
            address = '198.18.10.12' if more else '203.0.113.10'
            error = self.assertRaises(
                errors.Refused, self.request,
                self.small('two', '203.0.113.11', address, **more))
            self.assertEqual('address', error.option)

    def test_vip_cannot_be_a_member(self):
        self.request(self.small('one', '203.0.113.10', '203.0.113.11'))
        error = self.assertRaises(errors.Refused, self.request,
                                  self.small('two', '203.0.113.11'))
        self.assertEqual('vip_address', error.option)

    def test_own_vip_cannot_be_a_member(self):
        error = self.assertRaises(
            errors.Refused, self.request,
            self.small('one', '2001:db8::1', '2001:db8::2',
                       monitor_address='2001:db8::1'))
        self.assertIn('2001:db8::1', str(error))

    def test_address_is_reserved_until_its_removal_is_committed(self):
        self.request(self.small('one', '203.0.113.10', '203.0.113.11'))
        self.promote('one')
        self.request({'object': 'member', 'action': 'delete',
                      'object_id': 'm0', 'pool_id': 'pool-one'}, 'r')
        self.assertRaises(errors.Refused, self.request,
                          self.small('two', '203.0.113.11'))
        self.promote('one')
        self.request(self.small('two', '203.0.113.11'))

    def test_address_is_reserved_until_its_addition_is_dropped(self):
        self.request(self.small('one', '203.0.113.10'))
        self.promote('one')
        self.request({'object': 'member', 'action': 'create',
                      'object_id': 'm0', 'pool_id': 'pool-one',
                      'fields': base.member('203.0.113.11')}, 'r')
        self.assertRaises(errors.Refused, self.request,
                          self.small('two', '203.0.113.11'))
        self.store.cancel('r')
        self.request(self.small('two', '203.0.113.11'))

    def test_load_balancers_may_share_a_member(self):
        self.request(self.small('one', '203.0.113.10', '198.18.10.11'))
        self.request(self.small('two', '203.0.113.11', '198.18.10.11'))

    def test_load_balancers_with_the_same_dscp_cannot_share_a_member(self):
        def of(key, vip, address):
            return self.small(key, vip, address) | {'fields': dict(
                self.small(key, vip, address)['fields'],
                flavor={'encapsulation': 'dscp', 'dscp': 5})}
        self.request(of('one', '203.0.113.10', '198.18.10.11'))
        self.request(of('two', '203.0.113.11', '198.18.10.12'))
        error = self.assertRaises(
            errors.Refused, self.request,
            of('three', '203.0.113.12', '198.18.10.11'))
        self.assertIn('DSCP', error.for_operator)

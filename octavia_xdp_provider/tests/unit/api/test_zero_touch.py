# SPDX-License-Identifier: Apache-2.0
"""Members on hypervisors: refusals of the API, and documents of nodes."""

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.unit import base

TUNNEL = {'address': '198.18.20.1', 'encapsulation': 'geneve',
          'keys': {'listener': 7}, 'mtu': 1442}
VIP6 = '2001:db8:100::10'


def document(mode='required', **more):
    return base.document(flavor={'zero_touch': mode}, **more)


def members(given):
    return given['pools']['pool']['members']


class TestRefused(base.TestCase):

    def refused(self, option, given):
        error = self.assertRaises(errors.Refused, validation.validate, given)
        self.assertEqual(option, error.option)
        self.assertTrue(error.why and error.instead)
        given['flavor']['zero_touch'] = 'preferred'
        validation.validate(given)

    def test_each_member_may_have_any_port(self):
        for mode in ('required', 'preferred'):
            given = document(mode)
            members(given)['m1']['protocol_port'] = 8080
            validation.validate(given)
            members(given)['m1']['tunnel'] = TUNNEL
            validation.validate(given)

    def test_listener_waits_for_a_key_of_each_vip(self):
        given = document(additional_vips=[{'ip_address': VIP6}])
        for key, number in (('m1', 7), ('m2', 8)):
            members(given)[key]['tunnel'] = {
                **TUNNEL, 'keys': {'listener': number}}
        self.assertEqual({'m1', 'm2'}, spec.undecided(given))
        self.assertEqual({}, spec.for_node(given)['listeners'])
        for key, number in (('m1', 9), ('m2', 10)):
            members(given)[key]['tunnel']['additional_keys'] = {
                VIP6: {'listener': number}}
        self.assertEqual(set(), spec.undecided(given))
        sent = spec.for_node(given)
        self.assertEqual({'listener'}, set(sent['listeners']))
        validation.read(sent)
        members(given)['m2']['tunnel']['additional_keys'][VIP6] = {
            'listener': 9}
        error = self.assertRaises(errors.Refused, validation.validate, given)
        self.assertEqual('tunnel.address', error.option)

    def test_member_that_no_probe_reaches_is_refused(self):
        given = document()
        members(given)['m1']['monitor_port'] = 9000
        self.refused('monitor_port', given)
        # An echo request has no port.
        given['pools']['pool']['healthmonitor']['type'] = 'PING'
        validation.validate(given)

    def test_member_of_the_other_family_is_accepted(self):
        given = document()
        members(given)['m1']['address'] = '2001:db8::5'
        self.refused('address', given)


class TestSent(base.TestCase):

    def test_off_is_as_ever(self):
        sent = spec.for_node(document('off'))
        self.assertEqual({}, sent['flavor'])
        self.assertEqual({'m1', 'm2'}, set(members(sent)))

    def test_comparison_keeps_the_ways_of_members(self):
        stored, committed = document(), document()
        members(stored)['m1']['way'] = 'none'
        members(stored)['m2']['tunnel'] = TUNNEL
        self.assertEqual([], spec.differences(stored, committed))
        self.assertEqual(stored, spec.as_committed(stored, committed))

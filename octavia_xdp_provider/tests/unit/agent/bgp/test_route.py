# SPDX-License-Identifier: Apache-2.0

import dataclasses
import inspect
import ipaddress

from oslotest import base

from octavia_xdp_provider.agent.bgp import route as bgp_route
from octavia_xdp_provider.agent.bgp.route import Route


class TestRoute(base.BaseTestCase):

    def assert_refused(self, field, *arguments, **attributes):
        error = self.assertRaises(bgp_route.RouteError, Route.parse,
                                  *arguments, **attributes)
        self.assertEqual(field, error.field)
        self.assertIn(f'{field}: ', str(error))

    def test_address_alone_is_a_prefix_of_full_length(self):
        for text, prefix in (('203.0.113.10', '203.0.113.10/32'),
                             ('2001:db8::1', '2001:db8::1/128')):
            self.assertEqual(ipaddress.ip_network(prefix),
                             Route.parse(text).prefix)

    def test_each_field_can_be_parsed_from_text(self):
        self.assertEqual(
            [field.name for field in dataclasses.fields(Route)],
            list(inspect.signature(Route.parse).parameters))

    def test_communities_have_no_order_and_no_duplicates(self):
        for name, values in (
                ('communities', ('65000:2', '65000:1', '65000:2')),
                ('large_communities', ('65000:1:2', '65000:1:10',
                                       '65000:1:2'))):
            route = Route.parse('203.0.113.10', **{name: values})
            other = Route.parse('203.0.113.10', **{name: values[::-1]})
            self.assertEqual(route, other)
            self.assertEqual(2, len(getattr(route, name)))

    def test_communities_are_spelled_in_one_way(self):
        self.assertEqual(
            ('1:2', '65000:10'), Route.parse(
                '203.0.113.10', communities=('65000:010', '0001:2')
                ).communities)

    def test_well_known_communities_go_by_name(self):
        self.assertEqual(
            ('65535:0', '65535:65281'), Route.parse(
                '203.0.113.10', communities=('no-export',
                                             'graceful-shutdown')
                ).communities)

    def test_more_communities_than_fit_are_refused(self):
        for name, spelling in (('communities', '1:{}'),
                               ('large_communities', '1:1:{}')):
            most = [spelling.format(number) for number in range(32)]
            Route.parse('203.0.113.10', **{name: most})
            self.assert_refused(name, '203.0.113.10',
                                **{name: [*most, spelling.format(32)]})

    def test_malformed_values_are_refused_by_field(self):
        vip = '203.0.113.10'
        for field, values in (
                ('prefix', ('203.0.113.1/24', 'vip', '', '203.0.113.1/33')),
                # An address of the other family, and no addresses of a host.
                ('next_hop', ('2001:db8::1', 'router', '', '0.0.0.0',
                              '224.0.0.1', 'self')),
                # A text in place of a list, and values out of range.
                ('communities', ('65000:1', 5, None, *((value,) for value in (
                    '65536:1', '1:65536', '1', '1:2:3', 'a:b', ':', '',
                    '-1:1', '+1:1', '1: 2', '\uff11:2', 7, None)))),
                ('large_communities', [(value,) for value in (
                    '4294967296:0:0', '0:0:4294967296', '1:2', '1:2:3:4',
                    'no-export')])):
            for value in values:
                self.assert_refused(field, **{'prefix': vip, field: value})
        self.assert_refused('next_hop', '2001:db8:f::1', '198.18.1.6')

    def test_numbers_out_of_range_are_refused(self):
        for name, most in (('med', 2 ** 32 - 1),
                           ('local_preference', 2 ** 32 - 1),
                           ('as_path_prepend', 16)):
            Route.parse('203.0.113.10', **{name: 0})
            Route.parse('203.0.113.10', **{name: most})
            for wrong in (-1, most + 1, '1', 1.0, True):
                self.assert_refused(name, '203.0.113.10', **{name: wrong})
        self.assert_refused('as_path_prepend', '203.0.113.10',
                            as_path_prepend=None)

    def test_attributes_are_those_that_differ_from_a_plain_route(self):
        self.assertEqual({}, Route.parse('203.0.113.10',
                                         '198.18.1.6').attributes())
        route = Route.parse('203.0.113.10', communities=('65000:1',), med=0)
        self.assertEqual({'communities': ('65000:1',), 'med': 0},
                         route.attributes())

    def test_text_names_next_hop_and_attributes(self):
        self.assertEqual('203.0.113.10/32, next hop self',
                         str(Route.parse('203.0.113.10')))
        self.assertEqual(
            '203.0.113.10/32, next hop 198.18.1.6, communities 1:2 1:3, '
            'med 5', str(Route.parse('203.0.113.10', '198.18.1.6',
                                     ('1:3', '1:2'), med=5)))

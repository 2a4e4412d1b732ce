# SPDX-License-Identifier: Apache-2.0
"""Which interface is the tap of a port, and which cannot be served."""

from octavia_xdp_provider.host import taps
from octavia_xdp_provider.host.links import Link
from octavia_xdp_provider.host.ovsdb import Interface
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.host import fakes

NAME = 'tap11111111-11'


def links(*present):
    return {link.name: link for link in present}


class TestTaps(base.TestCase):

    def find(self, *interfaces, present=()):
        return taps.find(interfaces, links(*present))[fakes.PORT]

    def test_name_as_nova_has_it(self):
        self.assertEqual(NAME, taps.name_of(fakes.PORT))

    def test_tap_in_the_bridge_itself(self):
        self.assertEqual(
            taps.Tap('tap-x', 7),
            self.find(Interface('tap-x', '', fakes.PORT),
                      present=[Link(7, 'tap-x', 1442, 'tun')]))

    def test_tap_of_a_hybrid_port_is_beside_its_bridge(self):
        row = Interface('qvo11111111-11', '', fakes.PORT, 'netdev')
        self.assertEqual(taps.Tap(NAME), self.find(row))
        self.assertEqual(taps.Tap(NAME, 7), self.find(
            row, present=[Link(7, NAME, 1442), Link(8, row.name, 1442)]))

    def test_refused_by_name(self):
        here = [Link(7, 'x', 1500, None, 'pf0vf3')]
        for row, present, word in (
                (Interface('x', 'dpdkvhostuserclient', fakes.PORT), (),
                 'vhost-user'),
                (Interface('x', 'internal', fakes.PORT), here, "'internal'"),
                (Interface('x', '', fakes.PORT), here, 'SR-IOV'),
                (Interface('x', '', fakes.PORT, 'netdev'), here,
                 'userspace datapath')):
            tap = self.find(row, present=present)
            self.assertIn(word, tap.problem)
            self.assertIsNone(tap.ifindex)

    def test_local_port_of_two_with_one_id_is_used(self):
        rows = (Interface('old', '', fakes.PORT),
                Interface('new', '', fakes.PORT))
        self.assertEqual(taps.Tap('new', 7), self.find(
            *rows, present=[Link(7, 'new', 1500)]))
        tap = self.find(*rows, present=[Link(7, 'new', 1500),
                                        Link(8, 'old', 1500)])
        self.assertIn('new and old', tap.problem)
        self.assertIsNone(tap.ifindex)

    def test_by_names_alone(self):
        present = links(Link(7, NAME, 1442), Link(8, 'eth0', 1500))
        self.assertEqual({fakes.PORT: taps.Tap(NAME, 7)},
                         taps.guess(present, [fakes.PORT, fakes.OTHER]))

# SPDX-License-Identifier: Apache-2.0
"""Connections that LB nodes keep when a listener changes its tier."""

import copy

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import views
from octavia_xdp_provider.controller.store import moves
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.agent import planning

NOW = 1_800_000_000.0
PROXY = '198.18.20.1'
MEMBERS = {'198.18.10.11', '198.18.10.12'}


def changed(document, now=NOW, **pool):
    """Return the document after a change of its pool."""
    after = copy.deepcopy(document)
    after['pools']['pool'].update(pool)
    assert moves.concerns(document, after)
    return moves.note(document, views.with_moves(document, after), now)


def served(document):
    """Return the document once a proxy serves its listener."""
    return {**document, 'proxies': {
        'nodes': {'proxy': {'addresses': [PROXY], 'weight': 1}},
        'listeners': ['listener']}}


def service(document):
    """Return what an LB node makes of it: plan and service."""
    view = spec.for_node(views.for_lb_node(document))
    plan = planning.plan(view, mark=lambda *_way: 7)
    made, = plan.services.values()
    return plan, made


def weights(document):
    return {member.address: member.weight
            for member in service(document)[1].members}


class TestMoves(base.TestCase):

    def setUp(self):
        super().setUp()
        self.before = base.document()
        self.after = changed(self.before, tls_enabled=True)

    def test_members_only_keep_their_connections_afterwards(self):
        document = served(self.after)
        self.assertEqual({PROXY: 1, **dict.fromkeys(MEMBERS, 0)},
                         weights(document))
        plan, made = service(document)
        # They are not probed, and count as up.
        self.assertEqual([PROXY], [member.address for member in made.members
                                   if member.check])
        self.assertEqual(1, len(plan.checks))

    def test_members_are_reached_as_before(self):
        for flavor, port in (
                ({}, 0),
                ({'encapsulation': 'geneve', 'second_chance': True}, 0),
                ({'member_port': 'rewrite'}, 8080)):
            with self.subTest(flavor):
                before = base.document(flavor=flavor)
                members = before['pools']['pool']['members']
                del members['m2']
                if port:
                    members['m1']['protocol_port'] = port
                _plan, made = service(served(changed(before,
                                                     tls_enabled=True)))
                member, = (member for member in made.members
                           if not member.weight)
                kind = flavor.get('encapsulation', 'ipip')
                self.assertEqual(
                    ('198.18.10.11', kind, port,
                     bool(flavor.get('second_chance'))),
                    (member.tunnel.address,
                     member.tunnel.encapsulation.name.lower(), member.port,
                     member.tunnel.takes_alternative))

    def test_proxies_keep_their_connections_after_the_way_back(self):
        back = changed(served(self.after), tls_enabled=False)
        del back['proxies']
        self.assertEqual({PROXY: 0, **dict.fromkeys(MEMBERS, 1)},
                         weights(back))
        plan, made = service(back)
        self.assertEqual({'m1', 'm2'}, plan.monitored.keys())
        self.assertEqual({0}, {member.port for member in made.members})
        # And when it moves once more.
        again = served(changed(back, tls_enabled=True))
        self.assertEqual({PROXY: 1, **dict.fromkeys(MEMBERS, 0)},
                         weights(again))

    def test_places_of_clients_by_address_stay(self):
        before = base.document()
        before['pools']['pool']['lb_algorithm'] = 'SOURCE_IP'
        after = served(changed(before, tls_enabled=True))
        self.assertEqual(service(before)[1].settings.flags,
                         service(after)[1].settings.flags)

    def test_changes_drop_what_moved_long_ago_or_is_gone(self):
        soon, late = NOW + 10, NOW + moves.KEEP_S
        self.assertIn('moved', changed(self.after, soon, name='x'))
        self.assertNotIn('moved', changed(self.after, late, name='x'))
        gone = copy.deepcopy(self.after)
        gone['listeners'] = {}
        self.assertNotIn('moved', moves.note(self.after, gone, soon))

    def test_other_changes_move_nothing(self):
        other = copy.deepcopy(self.before)
        other['pools']['pool']['members'].pop('m2')
        self.assertFalse(moves.concerns(self.before, other))

    def test_flows_of_nat_cannot_be_kept(self):
        before = base.document(flavor={'forwarding': 'nat'})
        after = copy.deepcopy(before)
        after['pools']['pool']['tls_enabled'] = True
        self.assertFalse(moves.concerns(before, after))

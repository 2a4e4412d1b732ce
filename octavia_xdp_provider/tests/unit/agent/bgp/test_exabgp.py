# SPDX-License-Identifier: Apache-2.0

import dataclasses
import ipaddress
from unittest import mock

from oslotest import base

from octavia_xdp_provider.agent.bgp import exabgp
from octavia_xdp_provider.agent.bgp import speaker
from octavia_xdp_provider.agent.bgp.route import Route
from octavia_xdp_provider.tests.support import speakers

ROUTER = speakers.ROUTER
# Attributes of a Route that ExaBGP is not asked to send: the announcer refuses
# routes that have them.
NOT_SENT = frozenset()
FIRST, SECOND = (Route.parse(f'203.0.113.{number}') for number in (10, 11))


class WithFake(base.BaseTestCase):

    def start(self, stale=''):
        self.fake = speakers.FakeExaBgp(stale)
        self.addCleanup(self.fake.close)
        self.fake.start()
        return exabgp.ExaBgp(self.fake.reader, self.fake.writer)


class TestExaBgp(WithFake):

    def test_stale_answers_are_discarded(self):
        for stale in ('', 'done\n', 'error\nexabgp 5.0.15\ndone\n',
                      'done\nexabgp 5.0.15\n' * 20,
                      f'{ROUTER} ipv4 unicast 198.51.100.1/32 next-hop '
                      'self\n'):
            bgp = self.start(stale)
            bgp.synchronise()

            self.assertEqual(
                {ROUTER: speaker.Neighbour(
                    True, 4, frozenset({4}), frozenset({4}), 65010, 65000)},
                bgp.neighbours())
            self.assertEqual({}, bgp.routes())

    def test_refused_routes_are_returned_and_the_others_are_announced(self):
        bgp = self.start()
        self.fake.refused = {str(SECOND.prefix)}
        first = Route.parse('203.0.113.10', ROUTER)
        many = [Route.parse(f'203.0.113.{number}')
                for number in range(100, 200)]

        self.assertEqual([SECOND], bgp.announce([first, SECOND, *many]))
        self.assertEqual(ROUTER, self.fake.routes[str(FIRST.prefix)])
        self.assertEqual(101, len(bgp.routes()[ROUTER]))
        self.assertEqual([], bgp.withdraw([first, *many]))
        self.assertEqual({}, bgp.routes())

    def test_commands_of_one_write_fit_into_a_pipe_at_once(self):
        bgp = self.start()
        bgp.neighbours()
        routes = [Route.parse(
            f'203.0.113.{number}', ROUTER,
            [f'65535:{other}' for other in range(65500, 65532)],
            [f'4294967295:4294967295:{other}' for other in range(32)],
            2 ** 32 - 1, 2 ** 32 - 1, 16) for number in range(50)]
        sizes = []
        write = exabgp.os.write

        def written(descriptor, data):
            sizes.append((len(data), data.count(b'\n')))
            return write(descriptor, data)

        with mock.patch.object(exabgp.os, 'write', written):
            bgp.announce(routes)
            bgp.announce([Route.parse(f'203.0.113.{number}')
                          for number in range(50)])
        self.assertLessEqual(max(size for size, _count in sizes), 4096)
        self.assertLessEqual(max(count for _size, count in sizes), 24)
        self.assertEqual(100, sum(count for _size, count in sizes))

    def test_each_attribute_of_a_route_is_sent_or_refused(self):
        # With a value of each the contract below shows that it is sent.
        attributes = {field.name for field in dataclasses.fields(Route)[2:]}
        self.assertEqual(attributes, speakers.EACH_ATTRIBUTE.keys())
        self.assertEqual(attributes - NOT_SENT, exabgp.ExaBgp.capabilities)

    def test_withdrawal_names_what_was_announced(self):
        bgp = self.start()
        bgp.neighbours()
        route = Route.parse('203.0.113.10', ROUTER, ('65000:1',), med=5,
                            as_path_prepend=1)
        self.assertEqual(
            'withdraw route 203.0.113.10/32 next-hop 198.18.1.5 '
            'community [ 65000:1 ] med 5 as-path [ 65010 65010 ]',
            bgp._command('withdraw', route))

    def test_ipv6_over_an_ipv4_session_needs_a_next_hop(self):
        bgp = self.start()
        self.fake.families = ('ipv4 unicast', 'ipv6 unicast')
        bgp.neighbours()
        route = Route.parse('2001:db8:f::1')
        self.assertIn('next_hop_v6', bgp.problem(route))
        self.assertIsNone(bgp.problem(Route.parse('2001:db8:f::1',
                                                  '2001:db8::1')))
        # One from a predecessor: any address does.
        self.assertIn('next-hop 2001:db8:f::1',
                      bgp._command('withdraw', route))

    def test_as_path_is_not_prepended_to_within_one_as(self):
        bgp = self.start()
        with mock.patch.object(speakers, 'ROUTER_AS', speakers.NODE_AS):
            bgp.neighbours()
        self.assertIsNone(bgp.problem(FIRST))
        self.assertIn('AS path', bgp.problem(Route.parse(
            '203.0.113.10', as_path_prepend=1)))

    def test_events_between_answers_are_reported(self):
        bgp = self.start()
        states = []
        bgp.subscribe(lambda *state: states.append(state))
        self.fake.event('down')
        self.fake.event('whatever', kind='notification')
        self.fake.event('up')

        bgp.neighbours()
        self.assertEqual([(ROUTER, False, ''), (ROUTER, True, '')], states)

    def test_missing_answer_is_an_error(self):
        bgp = self.start()
        self.fake.silent = True

        with mock.patch.object(exabgp, 'ANSWER_TIMEOUT_S', 0.01):
            self.assertRaises(speaker.SpeakerError, bgp.announce, [FIRST])

    def test_prefix_that_is_none_is_an_error(self):
        bgp = self.start()
        self.fake.routes = {'nonsense': 'self'}
        self.assertRaises(speaker.SpeakerError, bgp.routes)


class TestContract(speakers.SpeakerContract, WithFake):
    """Against ExaBGP's side of the pipes as we understand it."""

    def setUp(self):
        super().setUp()
        self.speaker = self.start()
        self.speaker.synchronise()
        self.speaker.neighbours()

    def sent(self):
        return self.fake.parsed_routes()

    def end_session(self):
        self.fake.event('down')

    def end_speaker(self):
        self.fake.end()


class TestContractOfTheFake(speakers.SpeakerContract, base.BaseTestCase):
    """The speaker of other tests keeps the contract, too."""

    def setUp(self):
        super().setUp()
        self.speaker = speakers.FakeSpeaker()
        self.addCleanup(self.speaker.close)

    def sent(self):
        own = ipaddress.ip_address(speakers.OWN)
        return {str(prefix): Route(
            prefix, route.next_hop or own, **route.attributes())
            for prefix, route in self.speaker.held.items()}

    def end_session(self):
        self.speaker.end_session()

    def end_speaker(self):
        self.speaker.ended = True

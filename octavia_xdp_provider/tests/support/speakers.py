# SPDX-License-Identifier: Apache-2.0
"""What every BGP speaker must do, and two that need no BGP."""

import json
import os
import re
import threading

from octavia_xdp_provider.agent.bgp import speaker
from octavia_xdp_provider.agent.bgp.route import Route

NODE_AS, ROUTER_AS = 65010, 65000
ROUTER = '198.18.1.5'
OWN = '198.18.1.6'

# One value of each attribute of a route.
EACH_ATTRIBUTE = {
    'communities': ('65000:1', '65000:2', '65535:0'),
    'large_communities': ('65000:1:2', '4294967295:0:4294967295'),
    'med': 10,
    'local_preference': 200,
    'as_path_prepend': 2,
}


class SpeakerContract:
    """To be mixed into a test case that has a speaker.

    ``self.speaker`` is synchronised and has a session with one neighbour,
    which takes IPv4 routes only. ``sent`` is what that neighbour has.
    """

    neighbour = ROUTER
    not_carried = frozenset()  # attributes that such a session leaves out

    def sent(self):
        """Route by the text of its prefix, next hops as addresses."""
        raise NotImplementedError

    def end_session(self):
        raise NotImplementedError

    def end_speaker(self):
        raise NotImplementedError

    def eventually(self, what, condition):
        self.assertTrue(condition(), what)

    def assert_sent(self, *routes):
        expected = {str(route.prefix): route for route in routes}
        self.eventually(f'{expected}', lambda: self.sent() == expected)
        self.eventually('routes() is what was sent', lambda: {
            str(prefix) for prefix
            in self.speaker.routes().get(self.neighbour, ())
            } == expected.keys())

    def test_announced_route_is_sent_with_the_nodes_address(self):
        self.assertEqual([], self.speaker.announce(
            [Route.parse('203.0.113.10')]))
        self.assert_sent(Route.parse('203.0.113.10', OWN))

    def test_next_hop_of_a_route_is_sent(self):
        route = Route.parse('203.0.113.10', '198.18.1.4')
        self.assertEqual([], self.speaker.announce([route]))
        self.assert_sent(route)

    def test_withdrawn_route_is_withdrawn_and_no_other(self):
        first, second = (Route.parse(f'203.0.113.{number}', OWN)
                         for number in (10, 11))
        self.speaker.announce([first, second])
        self.assert_sent(first, second)
        self.assertEqual([], self.speaker.withdraw([first]))
        self.assert_sent(second)

    def test_withdrawal_needs_nothing_but_the_prefix(self):
        self.speaker.announce([Route.parse(
            '203.0.113.10', OWN, communities=('65000:1',), med=3)])
        self.eventually('announced', self.sent)
        self.assertEqual([], self.speaker.withdraw(
            [Route.parse('203.0.113.10')]))
        self.assert_sent()

    def test_withdrawal_of_what_was_never_announced_does_no_harm(self):
        self.speaker.withdraw([Route.parse('203.0.113.10')])
        self.speaker.announce([Route.parse('203.0.113.11', OWN)])
        self.assert_sent(Route.parse('203.0.113.11', OWN))

    def test_each_attribute_that_it_says_it_sends_is_sent(self):
        capabilities = self.speaker.capabilities
        self.assertLessEqual(capabilities, EACH_ATTRIBUTE.keys())
        for name in sorted(capabilities - self.not_carried):
            route = Route.parse('203.0.113.10', OWN,
                                **{name: EACH_ATTRIBUTE[name]})
            self.assertIsNone(self.speaker.problem(route))
            self.assertEqual([], self.speaker.announce([route]))
            self.assert_sent(route)

    def test_route_with_all_attributes_is_announced_and_withdrawn(self):
        wanted = {name: EACH_ATTRIBUTE[name] for name
                  in self.speaker.capabilities - self.not_carried}
        route = Route.parse('203.0.113.10', OWN, **wanted)
        self.speaker.announce([route])
        self.assert_sent(route)
        self.speaker.withdraw([route])
        self.assert_sent()

    def test_attributes_of_a_route_are_replaced_and_removed(self):
        for attributes in ({'communities': ('65000:1',)}, {'med': 7},
                           {'communities': ('65000:2',), 'med': 8}, {}):
            route = Route.parse('203.0.113.10', OWN, **attributes)
            self.speaker.announce([route])
            self.assert_sent(route)

    def test_many_routes_with_many_attributes_are_sent_in_one_call(self):
        # More than fits into one write to a pipe, no more than birdc shows.
        routes = [Route.parse(
            f'203.0.113.{number}', OWN,
            communities=[f'65000:{other}' for other in range(32)],
            large_communities=[f'4294967295:4294967295:{other}'
                               for other in range(12)])
            for number in range(100)]
        self.assertEqual([], self.speaker.announce(routes))
        self.assert_sent(*routes)
        self.assertEqual([], self.speaker.withdraw(routes))
        self.assert_sent()

    def test_neighbour_shows_its_session_and_families(self):
        neighbours = self.speaker.neighbours()
        self.assertEqual([self.neighbour], list(neighbours))
        neighbour = neighbours[self.neighbour]
        self.assertTrue(neighbour.up)
        self.assertEqual((4, {4}, {4}), (neighbour.session, neighbour.carries,
                                         neighbour.takes))
        self.assertEqual(NODE_AS, neighbour.local_as)

    def test_route_of_a_family_that_nobody_carries_has_a_problem(self):
        self.speaker.neighbours()
        self.assertIn('ipv6 unicast', self.speaker.problem(
            Route.parse('2001:db8::1')))

    def test_end_of_a_session_is_reported(self):
        changes = []
        self.speaker.subscribe(lambda *change: changes.append(change))
        self.end_session()

        def reported():
            self.speaker.receive()
            return any(address == self.neighbour and not up
                       for address, up, _reason in changes)

        self.eventually('the end of the session', reported)

    def test_end_of_the_speaker_is_an_error_of_its_own(self):
        self.end_speaker()

        def closed():
            try:
                self.speaker.receive()
            except speaker.SpeakerClosed:
                return True
            return False

        self.eventually('SpeakerClosed', closed)


class FakeSpeaker:
    """A speaker.Speaker in memory, with one neighbour."""

    capabilities = frozenset(EACH_ATTRIBUTE)

    def __init__(self):
        self.held = {}         # prefix → Route
        self.refused = set()   # prefixes
        self.changes = []      # (verb, Route)
        self.versions = frozenset((4,))
        self.silent = self.ended = False
        self.up = True
        self._changed = lambda *_change: None
        # Nothing comes by itself, so nothing is ever to be read.
        self._descriptors = os.pipe()

    def close(self):
        for descriptor in self._descriptors:
            os.close(descriptor)

    def fileno(self):
        return self._descriptors[0]

    def subscribe(self, changed):
        self._changed = changed

    def end_session(self):
        self.up = False
        self._changed(ROUTER, False, 'it was ended')

    def synchronise(self):
        self._speak()

    def receive(self):
        if self.ended:
            raise speaker.SpeakerClosed

    def neighbours(self):
        self._speak()
        return {ROUTER: speaker.Neighbour(
            self.up, 4, self.versions, self.versions, NODE_AS, ROUTER_AS)}

    def routes(self):
        self._speak()
        return {ROUTER: set(self.held)} if self.held else {}

    def problem(self, route):
        if route.prefix.version not in self.versions:
            return f'nobody takes ipv{route.prefix.version} unicast'
        return None

    def announce(self, routes):
        return self._change('announce', routes)

    def withdraw(self, routes):
        return self._change('withdraw', routes)

    def _change(self, verb, routes):
        self._speak()
        refused = []
        for route in routes:
            if route.prefix in self.refused:
                refused.append(route)
                continue
            self.changes.append((verb, route))
            if verb == 'announce':
                self.held[route.prefix] = route
            else:
                self.held.pop(route.prefix, None)
        return refused

    def _speak(self):
        self.receive()
        if self.silent:
            raise speaker.SpeakerError('the speaker does not answer')


class FakeExaBgp(threading.Thread):
    """The other end of ExaBgp's pipes; remembers routes as ExaBGP does."""

    def __init__(self, stale=''):
        super().__init__(daemon=True)
        commands, self.writer = os.pipe()
        self.reader, answers = os.pipe()
        self._commands = os.fdopen(commands)
        self._answers = os.fdopen(answers, 'w', buffering=1)
        self.routes = {}      # prefix → what followed "next-hop"
        self.refused = set()
        self.families = ('ipv4 unicast',)
        self.silent = False
        self._answers.write(stale)

    def run(self):
        for line in self._commands:
            if not self.silent:
                self._answers.write(self._answer(line.strip()))
        self._answers.close()

    def event(self, state, kind='state'):
        self._answers.write(json.dumps({'type': kind, 'neighbor': {
            'address': {'peer': ROUTER}, 'state': state}}) + '\n')

    def end(self):
        """Close ExaBGP's side, as if it had died."""
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None
            if self.ident:
                self.join()

    def close(self):
        self.end()
        self._commands.close()
        self._answers.close()
        os.close(self.reader)

    def parsed_routes(self):
        """Route by the text of its prefix, next hops as addresses."""
        return {prefix: _parsed(prefix, text)
                for prefix, text in self.routes.items()}

    def _answer(self, command):
        if command == 'reset':
            return ''
        if command in ('enable-ack', '#'):
            return 'done\n'
        if command == 'version':
            return 'exabgp 5.0.15\ndone\n'
        if command == 'show neighbor json':
            families = dict.fromkeys(self.families, True)
            return json.dumps([{
                'peer': {'address': ROUTER, 'families': families,
                         'as': ROUTER_AS},
                'local': {'address': OWN, 'families': families,
                          'as': NODE_AS},
                'state': 'down', 'fsm': 'ESTABLISHED'}]) + '\ndone\n'
        if command == 'show adj-rib out':
            return ''.join(
                f'{ROUTER} ipv4 unicast {prefix} next-hop {text}\n'
                for prefix, text in self.routes.items()) + 'done\n'
        verb, _route, prefix, _next_hop, text = command.split(maxsplit=4)
        if prefix in self.refused:
            return 'error\n'
        if verb == 'announce':
            self.routes[prefix] = text
        else:
            self.routes.pop(prefix, None)
        return 'done\n'


def _parsed(prefix, text):
    """A Route from what followed "next-hop" in a command."""
    next_hop, _, rest = text.partition(' ')
    values = {keyword: (listed or value).split() for keyword, listed, value
              in re.findall(r'([a-z-]+) (?:\[ ([^]]*) \]|(\S+))', rest)}
    path = values.get('as-path', [str(NODE_AS)])
    if set(path) != {str(NODE_AS)}:
        raise ValueError(text)
    return Route.parse(
        prefix, OWN if next_hop == 'self' else next_hop,
        values.get('community', ()), values.get('large-community', ()),
        *(int(values[name][0]) if name in values else None
          for name in ('med', 'local-preference')), len(path) - 1)

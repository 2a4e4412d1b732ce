# SPDX-License-Identifier: Apache-2.0
"""Which proxy nodes LB nodes send connections to, case by case."""

import itertools

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import proxies
from octavia_xdp_provider.controller.scheduler import cluster
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.tests.unit import base

GENERATION = 7
ADDRESSES = {'p': ['192.0.2.1'], 'q': ['192.0.2.2', '2001:db8::2']}
PATIENCE_S = 30.0
LATE_S = PATIENCE_S + 1
# State of a placement → its fields.
STATES = {
    'done': {}, 'behind': {'synced_generation': 6},
    'failing': {'error': 'bad configuration'},
    'draining': {'draining_since': 1.0}, 'replaced': {'replace': True},
    'leaving': {'removed_generation': 7}}


def document(weights=None, served=('web',), wanted=('web',)):
    """Return a document with proxied listeners and one of layer 4.

    :param weights: by host, of the proxies; None: it has none.
    :param served: listeners of the proxies.
    :param wanted: proxied listeners.
    """
    tree = base.tree()
    for number, key in enumerate(wanted):
        tree['listeners'][key] = {'protocol': 'HTTP',
                                  'protocol_port': 8000 + number}
    result = spec.document('lb', tree)
    if weights is not None:
        result['proxies'] = {
            'nodes': {host: {'addresses': ADDRESSES[host], 'weight': weight}
                      for host, weight in weights.items()},
            'listeners': list(served)}
    return result


def placement(host, state, role=rows.PROXY):
    return rows.Placement(**{
        'load_balancer_id': 'lb', 'host': host, 'error': None,
        'synced_generation': GENERATION, 'removed_generation': None,
        'role': role, **STATES[state]})


def decide(doc, states, age_s=proxies.JOIN_S):
    """:param states: host → condition and state of a placement. All are proxy
        nodes, but for a and b."""
    words = {host: text.split() for host, text in {
        'dead LB node': 'dead behind', **states}.items()}
    return proxies.decide(
        doc, GENERATION,
        [placement(host, state, rows.PROXY if host in ADDRESSES else rows.LB)
         for host, (_, state) in words.items()],
        {host: cluster.Condition(condition)
         for host, (condition, _) in words.items()},
        ADDRESSES, age_s, PATIENCE_S)


# Name → weights before, states, seconds since the change, weights after.
WEIGHTS = {
    'one that has applied the change joins': (
        None, {'p': 'live done'}, 0, {'p': 1}),
    'all that have applied it join together': (
        None, {'p': 'live done', 'q': 'live done'}, 0, {'p': 1, 'q': 1}),
    'none joins while another one is awaited': (
        None, {'p': 'live done', 'q': 'live behind'}, 0, None),
    'none is awaited for long': (
        None, {'p': 'live done', 'q': 'live behind'}, proxies.JOIN_S,
        {'p': 1}),
    'one that is silent is not awaited': (
        None, {'p': 'live done', 'q': 'silent behind'}, 0, {'p': 1}),
    'one that fails does not join': (
        None, {'p': 'live done', 'q': 'live failing'}, 0, {'p': 1}),
    'none joins that has not applied the change': (
        None, {'p': 'live behind'}, LATE_S, None),
    'one that drains does not join': (
        None, {'p': 'live done', 'q': 'live draining'}, 0, {'p': 1}),
    'one that drains joins if there is no other': (
        None, {'p': 'draining draining'}, 0, {'p': 1}),
    'a further one joins': (
        {'p': 1}, {'p': 'live done', 'q': 'live done'}, 0, {'p': 1, 'q': 1}),
    'one that leaves the load balancer leaves': (
        {'p': 1, 'q': 0}, {'p': 'live done', 'q': 'live leaving'}, 0,
        {'p': 1}),
    'one without a placement leaves': (
        {'p': 1, 'q': 0}, {'p': 'live done'}, 0, {'p': 1}),
    'one that fails gets no connections': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'live failing'}, 0,
        {'p': 1, 'q': 0}),
    'one that drains gets no connections': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'live draining'}, 0,
        {'p': 1, 'q': 0}),
    'one that is to be replaced gets no connections': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'live replaced'}, 0,
        {'p': 1, 'q': 0}),
    'one that works again gets connections': (
        {'p': 1, 'q': 0}, {'p': 'live done', 'q': 'live done'}, 0,
        {'p': 1, 'q': 1}),
    'not before it has applied the newest change': (
        {'p': 1, 'q': 0}, {'p': 'live done', 'q': 'live behind'}, LATE_S,
        {'p': 1, 'q': 0}),
    'one that is silent keeps its weight': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'silent done'}, 0,
        {'p': 1, 'q': 1}),
    'one that is dead keeps its weight': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'dead done'}, 0,
        {'p': 1, 'q': 1}),
    'one that died without weight gets none': (
        {'p': 1, 'q': 0}, {'p': 'live done', 'q': 'dead done'}, 0,
        {'p': 1, 'q': 0}),
    'a change that a silent one has not applied takes it out': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'silent behind'}, 0,
        {'p': 1, 'q': 0}),
    'a change that a dead one has not applied takes it out': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'dead behind'}, 0,
        {'p': 1, 'q': 0}),
    'one that reports has time to apply a change': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'live behind'},
        PATIENCE_S - 1, {'p': 1, 'q': 1}),
    'one that never applies it is taken out': (
        {'p': 1, 'q': 1}, {'p': 'live done', 'q': 'live behind'}, PATIENCE_S,
        {'p': 1, 'q': 0}),
    'all that fail go on': (
        {'p': 1, 'q': 1}, {'p': 'live failing', 'q': 'live failing'}, 0,
        {'p': 1, 'q': 1}),
    'all that are late go on': (
        {'p': 1, 'q': 1}, {'p': 'live behind', 'q': 'live behind'}, LATE_S,
        {'p': 1, 'q': 1}),
    'all that drain go on': (
        {'p': 1, 'q': 1}, {'p': 'live draining', 'q': 'live draining'}, 0,
        {'p': 1, 'q': 1}),
    'one that drains goes on until another one can': (
        {'p': 1, 'q': 0}, {'p': 'live draining', 'q': 'live failing'}, 0,
        {'p': 1, 'q': 0}),
    'all get connections if the last that got some is dead': (
        {'p': 1, 'q': 0}, {'p': 'dead behind', 'q': 'live failing'}, 0,
        {'p': 0, 'q': 1}),
    'one that fails goes on if the others are dead': (
        {'p': 0, 'q': 1}, {'p': 'live failing', 'q': 'dead behind'}, 0,
        {'p': 1, 'q': 0}),
    'as does a dead one whose HAProxy may answer': (
        {'p': 1, 'q': 1}, {'p': 'live failing', 'q': 'dead done'}, 0,
        {'p': 1, 'q': 1}),
    'one that drains is not put in place of one that is late': (
        {'p': 1, 'q': 0}, {'p': 'live behind', 'q': 'live draining'}, LATE_S,
        {'p': 1, 'q': 0}),
    'all that are dead keep their weights': (
        {'p': 1, 'q': 0}, {'p': 'dead behind', 'q': 'dead behind'}, LATE_S,
        {'p': 1, 'q': 0}),
}

# Name → served listeners, proxied ones, states, listeners after. Both nodes
# have joined.
LISTENERS = {
    'a listener that all have applied is served': (
        (), ('web',), {'p': 'live done', 'q': 'live done'}, ['web']),
    'one that a node has yet to apply is not': (
        ('web',), ('new', 'web'), {'p': 'live done', 'q': 'live behind'},
        ['web']),
    'one that a failing node lacks is served by the others': (
        (), ('web',), {'p': 'live done', 'q': 'live failing'}, ['web']),
    'one that no node could apply is not': (
        ('web',), ('new', 'web'), {'p': 'live failing', 'q': 'live failing'},
        ['web']),
    'one that a silent node lacks is served by the others': (
        ('web',), ('new', 'web'), {'p': 'live done', 'q': 'silent behind'},
        ['new', 'web']),
    'one that all silent nodes lack is not': (
        ('web',), ('new', 'web'), {'p': 'silent behind', 'q': 'dead behind'},
        ['web']),
    'one is served by nodes that drain, if there is no other': (
        (), ('web',), {'p': 'live draining', 'q': 'live draining'}, ['web']),
    'a served one stays while nodes apply a change': (
        ('web',), ('web',), {'p': 'live behind', 'q': 'live behind'},
        ['web']),
    'one that is gone leaves': (
        ('gone', 'web'), ('web',), {'p': 'live done', 'q': 'live done'},
        ['web']),
    'one of the other tier leaves': (
        ('listener', 'web'), ('web',),
        {'p': 'live behind', 'q': 'live behind'}, ['web']),
}


class TestDecide(base.TestCase):

    def test_weights(self):
        for name, (before, states, age_s, after) in WEIGHTS.items():
            with self.subTest(name):
                decided = decide(document(before), states, age_s).proxies
                self.assertEqual(after, decided and {
                    host: node['weight']
                    for host, node in decided['nodes'].items()})

    def test_listeners(self):
        for name, (served, wanted, states, after) in LISTENERS.items():
            with self.subTest(name):
                doc = document({'p': 1, 'q': 1}, served, wanted)
                self.assertEqual(after, decide(doc, states).proxies[
                    'listeners'])

    def test_nodes_have_their_registered_addresses(self):
        doc = document({'p': 1})
        doc['proxies']['nodes']['p']['addresses'] = ['192.0.2.9']
        decided = decide(doc, {'p': 'live done', 'q': 'live done'}).proxies
        self.assertEqual(ADDRESSES, {
            host: node['addresses']
            for host, node in decided['nodes'].items()})

    def test_next_decision_is_due_when_no_node_is_awaited_any_more(self):
        states = {'p': 'live done', 'q': 'live behind'}
        for age_s, again_in_s in ((0.5, proxies.JOIN_S - 0.5),
                                  (proxies.JOIN_S, PATIENCE_S - 2.0),
                                  (PATIENCE_S, None)):
            self.assertEqual(again_in_s, decide(
                document({'p': 1, 'q': 1}), states, age_s).again_in_s)
        self.assertIsNone(decide(document(), {'p': 'live done'}).again_in_s)

    def test_load_balancer_without_proxied_listeners_has_no_proxies(self):
        self.assertFalse(proxies.concerns(document(wanted=())))
        before = document({'p': 1}, wanted=())
        self.assertTrue(proxies.concerns(before))
        decided = decide(before, {'p': 'live done'})
        self.assertEqual((True, None), decided[:2])
        after = proxies.replaced(before, decided.proxies)
        self.assertNotIn('proxies', after)
        self.assertFalse(decide(after, {'p': 'live done'}).is_change)

    def test_deleted_listener_alone_is_no_change(self):
        doc = document({'p': 1}, ('gone', 'web'))
        for state in ('live done', 'live behind'):
            self.assertFalse(decide(doc, {'p': state}, 0).is_change)

    def test_listener_of_the_other_tier_stays_until_lb_nodes_are_told(self):
        up = {'p': 'live done', 'q': 'live done'}
        for wanted in (('web',), ()):
            doc = document({'p': 1, 'q': 1}, ('listener', *wanted), wanted)
            for lb_nodes, age_s, leaves in (
                    ({'a': 'live done', 'b': 'live behind'}, 3, False),
                    ({'a': 'live done', 'b': 'live behind'}, LATE_S, True),
                    ({'a': 'live done', 'b': 'live done'}, 3, True),
                    ({'a': 'live done', 'b': 'live failing'}, 3, True),
                    ({'a': 'live done', 'b': 'silent behind'}, 3, True),
                    ({'a': 'live done', 'b': 'live leaving'}, 3, True)):
                with self.subTest(f'{wanted} {lb_nodes} {age_s}'):
                    decided = decide(doc, {**up, **lb_nodes}, age_s)
                    self.assertEqual(leaves, decided.is_change)
                    self.assertEqual(None if leaves else PATIENCE_S - age_s,
                                     decided.again_in_s)
                    if wanted:
                        self.assertEqual(not leaves, 'listener' in decided
                                         .proxies['listeners'])

    def test_moving_listener_moves_once_it_is_served(self):
        doc = document({'p': 1}, (), ('web', 'new'))
        doc['proxies']['moving'] = {'web': 'pool', 'gone': 'pool'}
        behind = decide(doc, {'p': 'live behind', 'q': 'live done'})
        self.assertEqual({'web': 'pool'}, behind.proxies['moving'])
        done = decide(doc, {'p': 'live done'})
        self.assertNotIn('moving', done.proxies)
        self.assertEqual(['new', 'web'], done.proxies['listeners'])

    def test_decision_does_not_undo_itself(self):
        """All combinations of two nodes need one change, whether nodes have
        yet to apply that or have."""
        choices = [f'{condition} {state}' for condition, state
                   in itertools.product(
                       ('live', 'silent', 'dead', 'draining'), STATES)]
        for before, p, q, age_s in itertools.product(
                (None, {'p': 1}, {'p': 0, 'q': 1}, {'p': 1, 'q': 1}),
                choices, choices, (0, LATE_S)):
            doc = document(before)
            decided = decide(doc, {'p': p, 'q': q}, age_s)
            if not decided.is_change:
                continue
            doc = proxies.replaced(doc, decided.proxies)
            for state in ('behind', 'done'):
                self.assertFalse(decide(doc, {
                    'p': self.after(p, state), 'q': self.after(q, state)
                }).is_change, (before, p, q, age_s, state))

    @staticmethod
    def after(text, state):
        """Return the condition and state of a node after a change.

        :param state: of nodes that report, if they were done before.
        """
        condition, before = text.split()
        if condition in ('silent', 'dead'):
            state = 'behind'
        return f'{condition} {state if before == "done" else before}'


class TestSettled(base.TestCase):

    def test_settled_once_all_proxied_listeners_are_served(self):
        for doc, settled in (
                (document(wanted=()), True), (document(), False),
                (document({}, ()), False), (document({'p': 1}), True),
                (document({'p': 1}, ('gone', 'web')), True),
                (document({'p': 1}, ('web',), ('web', 'new')), False)):
            self.assertIs(settled, proxies.is_settled(doc))

    def test_nodes_without_weight_are_excluded(self):
        self.assertEqual(set(), proxies.excluded(document()))
        self.assertEqual({'q'}, proxies.excluded(document({'p': 1, 'q': 0})))

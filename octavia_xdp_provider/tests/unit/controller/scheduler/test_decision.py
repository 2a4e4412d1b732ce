# SPDX-License-Identifier: Apache-2.0

import random

from octavia_xdp_provider.controller.scheduler import moves
from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.controller.scheduler import removal_budget
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base
from octavia_xdp_provider.tests.unit.controller.scheduler.base import balancer
from octavia_xdp_provider.tests.unit.controller.scheduler.base import placed

Reason = moves.Reason


class TestDecision(unit.TestCase):

    def decide(self, conditions, placements=(), others=(), load_balancer=None,
               **more):
        """Decide about one load balancer; return (added, {removed: reason}).
        """
        decider = base.decider(conditions, [*placements, *others], **more)
        move = decider.decide(load_balancer or balancer(), list(placements))
        if move is None:
            return (), {}
        self.assertEqual({row.host for row in placements}, move.decided_on)
        return move.add, move.remove

    def test_new_load_balancer_goes_to_the_emptiest_nodes(self):
        add, remove = self.decide(
            'abc', others=[placed('a', 'other')])
        self.assertEqual(({'b', 'c'}, {}), (set(add), remove))

    def test_flavor_sets_the_number_of_nodes(self):
        add, _ = self.decide('abc', load_balancer=balancer(replicas=3))
        self.assertEqual(set('abc'), set(add))

    def test_placements_decide(self):
        """Nodes that are added and removed, by (conditions, placements)."""
        nodes = {'a': base.LIVE, 'b': base.LIVE, 'dead': base.DEAD,
                 'off': base.DISABLED, 'silent': base.SILENT}
        full = 'the map is full'
        for what, hosts, placements, expected in (
                ('enough nodes have it', 'ab', [placed('a'), placed('b')],
                 ((), {})),
                ('too few nodes are all used', 'a', [], (('a',), {})),
                ('no other node', 'a', [placed('a')], ((), {})),
                ('no other node than a dead one', ('a', 'dead'),
                 [placed('a'), placed('dead')], ((), {})),
                ('dead node', ('a', 'b', 'dead'),
                 [placed('a'), placed('dead')], (('b',), {})),
                ('its replacement has not applied it', ('a', 'b', 'dead'),
                 [placed('a'), placed('dead'), placed('b', synced=0)],
                 ((), {})),
                ('its replacement has it', ('a', 'b', 'dead'),
                 [placed('a'), placed('dead'), placed('b')],
                 ((), {'dead': Reason.DEAD})),
                ('unknown node', 'ab', [placed('a'), placed('unknown')],
                 (('b',), {})),
                ('silent node keeps it', ('a', 'b', 'silent'),
                 [placed('a'), placed('silent')], ((), {})),
                ('silent node gets no new one', ('a', 'silent'), [],
                 (('a',), {})),
                ('failing node', 'abc', [placed('a'), placed(
                    'b', error=full)], (('c',), {})),
                ('failing node is replaced', 'abc', [
                    placed('a'), placed('b', error=full), placed('c')],
                 ((), {'b': Reason.FAILING})),
                ('fails on as many as it may', 'abcdef', [
                    placed(host, error=full) for host in 'abc'], ((), {})),
                ('surplus that is not applied', 'abc', [
                    placed('a'), placed('b'), placed('c', synced=0)],
                 ((), {})),
                ('disabled node', ('a', 'b', 'off'),
                 [placed('a'), placed('off')], (('b',), {})),
                ('disabled node is replaced', ('a', 'b', 'off'),
                 [placed('a'), placed('off'), placed('b')],
                 ((), {'off': Reason.DISABLED}))):
            with self.subTest(what):
                conditions = {host: nodes.get(host, base.LIVE)
                              for host in hosts}
                self.assertEqual(expected,
                                 self.decide(conditions, placements))

    def test_fewer_replicas_remove_the_fullest_node(self):
        _, remove = self.decide(
            'ab', [placed('a'), placed('b')],
            [placed('b', 'other')], balancer(replicas=1))
        self.assertEqual({'b': Reason.SURPLUS}, remove)

    def test_full_node_gets_no_more(self):
        reports = {'a': {'services': 1023, 'services_max': 1024},
                   'b': {'services': 1024, 'services_max': 1024},
                   'c': {'services': 5, 'services_max': 1024}}
        decider = base.decider('abc', reports=reports, replicas=3)
        self.assertEqual({'a', 'c'},
                         set(decider.decide(balancer('x'), []).add))
        # The report does not yet include the placement above.
        self.assertEqual(('c',), decider.decide(balancer('y'), []).add)
        self.assertIn('1024 of 1024', decider.refusal(
            decider.cluster.hosts['a'], balancer().document))

    def test_load_balancers_use_different_pairs_of_nodes(self):
        pairs = set()
        for number in range(40):
            add = base.decider('abcde').decide(
                balancer(f'lb{number}'), []).add
            pairs.add(frozenset(add))
        self.assertGreater(len(pairs), 5)


class TestConvergence(unit.TestCase):
    """Random clusters: no pass makes things worse, and the last changes
    nothing."""

    HOSTS = [f'n{number}' for number in range(6)]

    def test_load_is_spread_and_the_plan_is_stable(self):
        balancers = [balancer(f'lb{number}') for number in range(60)]
        placements = []
        rng = random.Random(7)
        for _ in range(3):
            rng.shuffle(balancers)
            decider = base.decider(self.HOSTS, placements)
            for load_balancer in balancers:
                key = load_balancer.id
                move = decider.decide(load_balancer, [
                    row for row in placements if row.load_balancer_id == key])
                if move:
                    self.assertEqual({}, move.remove)
                    placements += [placed(host, key) for host in move.add]
        counts = [sum(row.host == host for row in placements)
                  for host in self.HOSTS]
        self.assertEqual([20] * 6, counts)

    def test_random_events_end_with_enough_working_nodes(self):
        for seed in range(300):
            rng = random.Random(seed)
            conditions = {host: rng.choice([
                base.LIVE, base.LIVE, base.LIVE, base.SILENT, base.DEAD,
                base.DISABLED]) for host in self.HOSTS}
            broken = {host for host in self.HOSTS if rng.random() < 0.2}
            load_balancer = balancer(replicas=rng.randint(1, 4))
            rows = {host: placed(host, synced=rng.randint(0, 1))
                    for host in rng.sample(self.HOSTS, rng.randint(0, 5))}
            for _ in range(12):
                rows = self.step(conditions, broken, load_balancer, rows)
            self.check(seed, conditions, broken, load_balancer, rows)

    def step(self, conditions, broken, load_balancer, rows):
        """Let the nodes apply their load balancers, then make one pass."""
        live = {host for host in rows if conditions[host] is base.LIVE}
        rows = {host: placed(
                    host,
                    synced=(1 if host in live - broken
                            else row.synced_generation),
                    error='no' if host in live & broken else row.error)
                for host, row in rows.items()}
        serving = self.serving(conditions, rows)
        move = base.decider(conditions, rows.values()).decide(
            load_balancer, list(rows.values()))
        if move is None:
            return rows
        after = {host: row for host, row in rows.items()
                 if host not in move.remove}
        after.update({host: placed(host, synced=0) for host in move.add})
        wanted = load_balancer.document['flavor']['replicas']
        self.assertGreaterEqual(len(self.serving(conditions, after)),
                                min(wanted, len(serving)))
        return after

    @staticmethod
    def serving(conditions, rows):
        return {host for host, row in rows.items()
                if conditions[host] in (base.LIVE, base.SILENT)
                and row.synced_generation and not row.error}

    def check(self, seed, conditions, broken, load_balancer, rows):
        wanted = load_balancer.document['flavor']['replicas']
        able = {host for host in self.HOSTS
                if conditions[host] is base.LIVE and host not in broken}
        silent = {host for host, row in rows.items()
                  if conditions[host] is base.SILENT and not row.error}
        here = able & rows.keys()
        if len(here) + len(silent) < wanted:
            # No other node is able, or too many have failed already.
            failing = {host for host, row in rows.items() if row.error}
            self.assertTrue(able <= rows.keys() or len(failing) > wanted,
                            (seed, conditions, broken, rows))
        self.assertIsNone(base.decider(conditions, rows.values()).decide(
            load_balancer, list(rows.values())), seed)


class TestRebalance(unit.TestCase):

    def extremes(self, counts, **more):
        conditions = more.pop('conditions', dict.fromkeys(counts, base.LIVE))
        pairs = rebalance.extremes(base.cluster(conditions, [
            placed(host, f'lb{number}') for host, count in counts.items()
            for number in range(count)], **more))
        return tuple(host.name for host in pairs[0]) if pairs else None

    def test_fullest_gives_to_emptiest(self):
        self.assertEqual(('b', 'c'), self.extremes({'a': 5, 'b': 9, 'c': 1}))

    def test_small_differences_are_ignored(self):
        self.assertIsNone(self.extremes({'a': 1, 'b': 2}))
        self.assertEqual(('b', 'a'), self.extremes({'a': 1, 'b': 3}))
        self.assertIsNone(self.extremes({'a': 97, 'b': 100}))

    def test_single_node_moves_nothing(self):
        self.assertIsNone(self.extremes({'a': 9}))
        self.assertIsNone(self.extremes({'a': 9, 'b': 0}, conditions={
            'a': base.LIVE, 'b': base.SILENT}))

    def test_full_node_gets_no_moves(self):
        decider = base.decider('abc', reports={
            'c': {'services': 9, 'services_max': 9}})
        movable = [(balancer('x'), ['a', 'b'])]
        target = decider.cluster.hosts
        self.assertIsNone(rebalance.move(decider, movable, target['c']))
        full = base.decider('abd', [placed('a', 'y'), placed('a', 'z')])
        self.assertEqual(('x', {'a', 'b'}, ('d',)),
                         self.move(full, movable, 'd'))

    @staticmethod
    def move(decider, movable, host):
        move = rebalance.move(decider, movable, decider.cluster.hosts[host])
        return move.load_balancer_id, set(move.decided_on), move.add


def move(key, add=(), **remove):
    return moves.Move(key, frozenset(), add, remove)


class TestRemovalBudget(unit.TestCase):

    def test_allowance_is_a_share_with_a_minimum(self):
        self.assertEqual(200, removal_budget.allowance(1000, 20, 10))
        self.assertEqual(10, removal_budget.allowance(30, 20, 10))

    def test_removals_from_failed_nodes_are_limited_by_the_budget(self):
        moves = [move(f'lb{number}', dead=Reason.DEAD, bad=Reason.FAILING)
                 for number in range(3)]
        kept, deferred = removal_budget.cut(moves, 3)
        self.assertEqual(3, deferred)
        self.assertEqual([2, 1], [len(move.remove) for move in kept])

    def test_additions_and_requested_removals_are_never_deferred(self):
        moves = [move('x', ('n',), dead=Reason.DEAD),
                 move('y', off=Reason.DISABLED),
                 move('z', full=Reason.SURPLUS)]
        kept, deferred = removal_budget.cut(moves, 0)
        self.assertEqual(1, deferred)
        self.assertEqual([move('x', ('n',)), *moves[1:]], kept)

# SPDX-License-Identifier: Apache-2.0
"""How load balancers are spread over zones.

Names of nodes begin with their zone's: a1 and a2 are in zone a, and those
that begin with a digit are in none.
"""

import collections
import dataclasses
import itertools

from hypothesis import example
from hypothesis import given
from hypothesis import strategies

from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import rebalance
from octavia_xdp_provider.controller.store import rows as rows_module
from octavia_xdp_provider.tests.support import untimed
from octavia_xdp_provider.tests.unit import base as unit
from octavia_xdp_provider.tests.unit.controller.scheduler import base
from octavia_xdp_provider.tests.unit.controller.scheduler.base import balancer
from octavia_xdp_provider.tests.unit.controller.scheduler.base import placed

FULL = {'services': 9, 'services_max': 9}


def zone(host):
    return host[0] if host[0].isalpha() else None


def numbers(hosts):
    """Return the numbers of hosts by zone, in descending order."""
    return sorted(collections.Counter(map(zone, hosts)).values(),
                  reverse=True)


def decider(conditions, placements=(), **more):
    return base.decider(conditions, placements,
                        zones={host: zone(host) for host in conditions},
                        **more)


def decide(conditions, placements=(), wanted=None, **more):
    """Return what is added to one load balancer, and what leaves it."""
    move = decider(conditions, placements, **more).decide(
        wanted or balancer(), list(placements))
    return (set(move.add), set(move.remove)) if move else (set(), set())


class TestPlaces(unit.TestCase):

    def spread_of(self, hosts, number=200, **more):
        """Place load balancers one by one; return numbers by zone → how many
        have these."""
        placements, spread = [], collections.Counter()
        for index in range(number):
            key = f'lb{index}'
            move = decider(hosts, placements, **more).decide(balancer(key), [])
            placements += [placed(host, key) for host in move.add]
            spread[tuple(numbers(move.add))] += 1
        return dict(spread)

    def test_new_load_balancers_are_in_as_many_zones_as_possible(self):
        for hosts, replicas, spread in (
                (('a1', 'a2', 'b1', 'b2'), 2, (1, 1)),
                (('a1', 'a2', 'b1', 'b2'), 3, (2, 1)),
                (('a1', 'a2', 'b1', 'b2', 'c1', 'c2'), 2, (1, 1)),
                (('a1', 'a2', 'b1', 'b2', 'c1', 'c2'), 3, (1, 1, 1)),
                (('a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'b2'), 2, (1, 1)),
                (('a1', 'a2', 'a3', 'b1'), 4, (3, 1)),
                # Nodes without a zone are in one common zone.
                (('1', '2', '3', 'b1'), 2, (1, 1)),
                (('1', '2', '3'), 2, (2,))):
            with self.subTest(hosts=hosts, replicas=replicas):
                self.assertEqual({spread: 60}, self.spread_of(
                    hosts, 60, replicas=replicas))

    def test_zones_do_not_matter_with_off(self):
        spread = self.spread_of(('a1', 'a2', 'b1', 'b2'), spread='off')
        self.assertLess(20, spread[2,])

    def test_required_zones_limit_the_number_of_nodes(self):
        self.assertEqual({(1, 1): 20}, self.spread_of(
            ('a1', 'a2', 'b1', 'b2'), 20, replicas=3, spread='require'))
        self.assertEqual({(1,): 20}, self.spread_of(
            ('1', '2', '3'), 20, spread='require'))

    def test_flavor_goes_before_the_option(self):
        add, _ = decide(('a1', 'a2'), wanted=balancer(spread='require'))
        self.assertEqual(1, len(add))
        add, _ = decide(('a1', 'a2'), wanted=balancer(spread='prefer'),
                        spread='require')
        self.assertEqual(2, len(add))

    def test_load_balancer_in_a_zone_has_several_nodes_there(self):
        wanted = balancer()
        wanted.document['availability_zone'] = {'zone': 'a'}
        self.assertEqual({'a1', 'a2'}, decide(
            ('a1', 'a2'), wanted=wanted, spread='require')[0])

    def test_dead_node_is_replaced_in_its_zone(self):
        conditions = {'a1': base.DEAD, 'a2': base.LIVE, 'b1': base.LIVE,
                      'b2': base.LIVE}
        # The emptier node is in the other zone.
        others = [placed('a2', f'x{number}') for number in range(5)]
        move = decider(conditions, others).decide(
            balancer(), [placed('a1'), placed('b1')])
        self.assertEqual(('a2',), move.add)

    def test_surplus_leaves_the_fullest_zone(self):
        others = [placed('a1', f'x{number}') for number in range(5)]
        move = decider(('a1', 'b1', 'b2'), others).decide(
            balancer(), [placed('a1'), placed('b1'), placed('b2')])
        self.assertEqual(1, len(move.remove))
        self.assertLessEqual(move.remove.keys(), {'b1', 'b2'})

    def test_live_node_is_no_surplus_of_a_silent_one(self):
        conditions = {'a1': base.SILENT, 'b1': base.LIVE, 'b2': base.LIVE}
        rows = [placed('a1'), placed('b1'), placed('b2')]
        self.assertEqual((set(), set()), decide(conditions, rows))
        conditions['a1'] = base.LIVE
        self.assertEqual(1, len(decide(conditions, rows)[1]))
        conditions['a1'] = base.DEAD
        self.assertEqual({'a1'}, decide(conditions, rows)[1])

    def test_failover_keeps_the_only_node_of_a_zone(self):
        rows = [base.replaced('a1'), base.replaced('b1')]
        self.assertEqual(({'b2'}, set()), decide(
            ('a1', 'b1', 'b2', 'b3'), rows))

    def test_nodes_of_a_zone_out_of_service_are_left_if_zones_are_required(
            self):
        off = base.DISABLED
        rows = [placed('a1'), placed('b1')]
        for conditions, spread, expected in (
                ({'a1': off, 'a2': off, 'b1': base.LIVE, 'b2': base.LIVE},
                 'require', (set(), {'a1'})),
                ({'a1': off, 'a2': off, 'b1': base.LIVE, 'b2': base.LIVE},
                 'prefer', ({'b2'}, set())),
                # Its zone is in service.
                ({'a1': off, 'a2': base.SILENT, 'b1': base.LIVE}, 'require',
                 (set(), set())),
                ({'a1': off, 'a2': base.LIVE, 'b1': base.LIVE}, 'require',
                 ({'a2'}, set())),
                # A third zone can take it.
                ({'a1': off, 'b1': base.LIVE, 'c1': base.LIVE}, 'require',
                 ({'c1'}, set())),
                # No other node serves it.
                ({'a1': off, 'b1': base.DEAD}, 'require', (set(), set()))):
            with self.subTest(conditions=conditions, spread=spread):
                self.assertEqual(expected, decide(conditions, rows,
                                                  spread=spread))


class TestMends(unit.TestCase):

    def mend(self, conditions, hosts, wanted=None, **more):
        rows = [placed(host) for host in hosts]
        move = rebalance.mend(decider(conditions, rows, **more),
                              wanted or balancer(), rows)
        return move and move.add

    def test_zone_that_is_back_gets_a_node_of_it(self):
        self.assertEqual(('a1',), self.mend(('a1', 'b1', 'b2'), ('b1', 'b2')))
        self.assertEqual(('c1',), self.mend(
            ('a1', 'b1', 'b2', 'c1'), ('a1', 'b1', 'b2'), replicas=3))

    def test_best_possible_spread_stays(self):
        for conditions, hosts in (
                (('a1', 'a2', 'b1', 'b2'), ('a1', 'b1')),
                (('a1', 'a2', 'a3', 'b1'), ('a1', 'a2', 'b1')),
                (('a1', 'b1', 'b2'), ('b1',)),
                (('1', '2', '3'), ('1', '2'))):
            with self.subTest(conditions=conditions):
                self.assertIsNone(self.mend(conditions, hosts,
                                            replicas=len(hosts)))

    def test_what_is_not_whole_or_not_wanted_is_left_alone(self):
        live = dict.fromkeys(('a1', 'b1', 'b2'), base.LIVE)
        for what, conditions, more in (
                ('off', live, {'spread': 'off'}),
                ('full', live, {'reports': {'a1': FULL}}),
                ('dead zone', {**live, 'a1': base.DEAD}, {}),
                ('dead node', {**live, 'b1': base.DEAD}, {}),
                ('too few nodes', live, {'replicas': 3})):
            with self.subTest(what):
                self.assertIsNone(self.mend(conditions, ('b1', 'b2'), **more))


class TestRebalance(unit.TestCase):

    def test_even_load_does_not_cost_the_spread(self):
        """Two nodes in one zone are added to one in each of two."""
        placements = {f'lb{number:02}': [
            placed('a1', f'lb{number:02}'), placed('b1', f'lb{number:02}')]
            for number in range(12)}
        hosts = ('a1', 'b1', 'b2', 'b3')
        on = self.carry_out(hosts, placements)
        self.assertEqual({(1, 1)}, {tuple(numbers(names))
                                    for names in on.values()})
        # Load is even within the zone.
        self.assertEqual({'a1': 12, 'b1': 4, 'b2': 4, 'b3': 4}, dict(
            collections.Counter(itertools.chain(*on.values()))))

    def test_spread_is_mended_before_load_is_even(self):
        placements = {f'lb{number}': [placed('b1', f'lb{number}'),
                                      placed('b2', f'lb{number}')]
                      for number in range(8)}
        on = self.carry_out(('a1', 'a2', 'b1', 'b2'), placements)
        self.assertEqual({(1, 1)}, {tuple(numbers(names))
                                    for names in on.values()})
        self.assertEqual([4] * 4, sorted(collections.Counter(
            itertools.chain(*on.values())).values()))

    def carry_out(self, hosts, placements):
        """Make the moves of a plan; return load balancer → its hosts."""
        planner = decider(hosts, [row for rows in placements.values()
                                  for row in rows])
        on = {key: {row.host for row in rows}
              for key, rows in placements.items()}
        for step in rebalance.plan(
                planner, {key: balancer(key) for key in on}, placements):
            before = numbers(on[step.load_balancer_id])
            self.assertEqual(1, len(step.sources))
            on[step.load_balancer_id] ^= {*step.sources, step.target}
            self.assertLessEqual(numbers(on[step.load_balancer_id]), before)
        return on

    def test_requested_move_that_would_be_undone_is_refused(self):
        rows = [placed('a1'), placed('b1')]
        planner = decider(('a1', 'a2', 'b1', 'b2'), rows)
        for source, target, refused in (
                ('a1', 'a2', False), ('a1', 'b2', True), ('b1', 'b2', False)):
            reason = rebalance.spread_refusal(
                planner, balancer(), {'a1', 'b1'}, source,
                planner.cluster.hosts[target])
            self.assertEqual(refused, reason is not None, (source, target))


HOSTS = ('a1', 'a2', 'a3', 'b1', 'b2', 'c1', '1')
CONDITIONS = (base.LIVE, base.LIVE, base.SILENT, base.DEAD, base.DISABLED)
EVENTS = strategies.lists(
    strategies.tuples(strategies.sampled_from(HOSTS),
                      strategies.sampled_from((None, *CONDITIONS)),
                      strategies.integers(0, 3)), max_size=12)


class Deployment:
    """Load balancers on nodes of a role that apply what they are given.

    Weight 0 of a proxy node that drains is a new generation, which LB nodes
    apply at once.
    """

    def __init__(self, spread, replicas, role):
        self.spread = spread
        self.role = role
        self.balancers = {f'lb{number}': balancer(
            f'lb{number}', replicas=replicas) for number in range(3)}
        for row in self.balancers.values():
            row.document['listeners']['listener']['protocol'] = (
                'HTTP' if role == 'proxy' else 'TCP')
        self.conditions = {}
        self.rows = {key: [] for key in self.balancers}

    def decider(self):
        return decider(self.conditions, itertools.chain(*self.rows.values()),
                       spread=self.spread, role=self.role)

    def happen(self, host, condition):
        """A node joins, leaves (None) or changes its condition."""
        if condition is None:
            self.conditions.pop(host, None)
            self.rows = {key: [row for row in rows if row.host != host]
                         for key, rows in self.rows.items()}
        else:
            self.conditions[host] = condition

    def turn(self):
        """Do all that is due; return whether anything was."""
        self.rows = {
            key: [dataclasses.replace(
                row, synced_generation=self.balancers[key].generation)
                if self.conditions[row.host] in (base.LIVE, base.DISABLED)
                else row for row in rows] for key, rows in self.rows.items()}
        busy = False
        for key, row in self.balancers.items():
            move = (self.decider().decide(row, self.rows[key],
                                          self.traffic(key))
                    or rebalance.mend(self.decider(), row, self.rows[key]))
            busy |= self.make(move)
        planner = self.decider()
        for fullest, emptiest in rebalance.extremes(planner.cluster):
            move = rebalance.move(planner, [
                (self.balancers[key], self.hosts(key)) for key in self.rows
                if fullest.name in self.hosts(key)
                and emptiest.name not in self.hosts(key)
                and len(self.rows[key]) == planner.wanted(
                    self.balancers[key])
                and all(planner.is_fine(self.balancers[key], row)
                        for row in self.rows[key])], emptiest)
            if self.make(move):
                return True
        return busy

    def traffic(self, key):
        return decision.Traffic(unused=[
            row.host for row in self.rows[key]
            if row.draining_since is not None])

    def make(self, move):
        if move is None or not move.changes_something:
            return False
        key = move.load_balancer_id
        self.rows[key] = [
            dataclasses.replace(
                row, draining_since=0.0 if row.host in move.drain
                else None if row.host in move.restore else row.draining_since)
            for row in self.rows[key] if row.host not in move.remove] + [
            placed(host, key, synced=0) for host in move.add]
        if move.drain or move.restore:
            self.balancers[key] = dataclasses.replace(
                self.balancers[key],
                generation=self.balancers[key].generation + 1)
        return True

    def hosts(self, key):
        return [row.host for row in self.rows[key]]

    def best(self, replicas):
        """Return the numbers of nodes by zone that are best: of all
        combinations, those with the most nodes in the most equal numbers."""
        live = collections.Counter(
            zone(host) for host, condition in self.conditions.items()
            if condition is base.LIVE)
        most = 1 if self.spread == 'require' else replicas
        ways = [way for way in itertools.product(*(
            range(min(number, most) + 1) for number in live.values()))
            if sum(way) <= replicas]
        return sorted(filter(None, min(ways, key=lambda way: (
            -sum(way), sum(number ** 2 for number in way)))), reverse=True)


class TestProperties(unit.TestCase):

    @untimed.settings
    @given(spread=strategies.sampled_from(('prefer', 'require')),
           replicas=strategies.integers(1, 4), events=EVENTS,
           role=strategies.sampled_from(rows_module.ROLES))
    @example('require', 2, [('a2', base.LIVE, 1), ('a2', base.DEAD, 0),
                            ('a1', base.LIVE, 1), ('a2', base.LIVE, 0)], 'lb')
    def test_spread_is_the_best_possible_after_quiet(self, spread, replicas,
                                                     events, role):
        deployment = Deployment(spread, replicas, role)
        for host, condition, turns in events:
            deployment.happen(host, condition)
            for _ in range(turns):
                deployment.turn()
        # Silent nodes come back or are declared dead in the end.
        for number, (host, condition) in enumerate(
                sorted(deployment.conditions.items())):
            if condition is base.SILENT:
                deployment.happen(host, (base.LIVE, base.DEAD)[number % 2])
        for _ in range(100):
            if not deployment.turn():
                break
        else:
            self.fail(f'it never ends: {deployment.rows}')
        best = deployment.best(replicas)
        for key in deployment.rows:
            live = [host for host in deployment.hosts(key)
                    if deployment.conditions[host] is base.LIVE]
            if spread == 'require':
                # A dead node that is back before it lost the load balancer
                # keeps it beside its replacement, in the same zone.
                self.assertEqual(len(best), len(numbers(live)),
                                 deployment.rows)
            else:
                self.assertEqual(best, numbers(live), deployment.rows)

    @untimed.settings
    @given(hosts=strategies.sets(strategies.sampled_from(HOSTS), min_size=1),
           on=strategies.sets(strategies.sampled_from(HOSTS), min_size=1,
                              max_size=3),
           load=strategies.lists(strategies.sampled_from(HOSTS), max_size=20))
    def test_no_planned_move_makes_a_spread_worse(self, hosts, on, load):
        hosts |= on
        rows = [placed(host) for host in sorted(on)]
        others = [placed(host, f'x{number}')
                  for number, host in enumerate(load) if host in hosts]
        planner = decider(sorted(hosts), [*rows, *others], replicas=len(on))
        now = set(on)
        for step in rebalance.plan(planner, {'lb': balancer()}, {'lb': rows}):
            before = sum(number ** 2 for number in numbers(now))
            now ^= {*step.sources, step.target}
            self.assertEqual(len(on), len(now))
            self.assertLessEqual(
                sum(number ** 2 for number in numbers(now)), before)

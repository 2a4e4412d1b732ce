# SPDX-License-Identifier: Apache-2.0
"""What a node without state is told of what others remember."""

from octavia_xdp_provider.contracts import history
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.controller import majority
from octavia_xdp_provider.tests.unit import base

AGED = shape.Shape(history.Aged)

# C was added 20 s ago, B 90 s ago.
C = (20, {'c': 0}, 1021)
B = (90, {'b': 0}, 1021)
LIE = (5, {'a': 0, 'b': 0, 'c': 0}, 1021)


class TestMajority(base.TestCase):

    def told(self, *words, members='abc'):
        found = majority.agreed([{'pool': list(word)} for word in words],
                                {'pool': set(members)})
        AGED.check(found)
        return [(one['age'], one['members'], one['slots'])
                for one in found.get('pool', ())]

    def test_all_that_nodes_agree_on_is_told(self):
        self.assertEqual([C, B], self.told([C, B], [C, B]))
        # Who began to remember later knows less, and contradicts nothing.
        self.assertEqual([C, B], self.told([C, B], [C, B], [C]))
        self.assertEqual([C], self.told([C, B], [C]))

    def test_one_node_alone_decides_only_where_there_is_no_other(self):
        self.assertEqual([C], self.told([C]))
        self.assertEqual([], self.told([C], []))
        self.assertEqual([], self.told([LIE], [C]))
        self.assertEqual([C], self.told([LIE, B], [C], [C]))
        self.assertEqual([], self.told([LIE], [C], [B]))

    def test_half_of_all_is_no_majority(self):
        self.assertEqual([], self.told([C], [C], [], []))
        self.assertEqual([C], self.told([C], [C], [C], []))

    def test_older_changes_are_those_of_who_agrees_so_far(self):
        # Two say that B was before something else than C.
        self.assertEqual([C], self.told([C], [C, B], [LIE, B], [C]))

    def test_an_age_is_what_most_say_about_it(self):
        ages = [(age, *C[1:]) for age in (19, 20, 9000)]
        self.assertEqual(
            [(20, *C[1:]), B], self.told(*([aged, B] for aged in ages)))
        # The earlier change is none of later: a clock went wrong.
        self.assertEqual([(90, *C[1:]), (90, *C[1:])], self.told(
            [(90, *C[1:]), C]))

    def test_what_no_flow_is_left_of_is_not_told(self):
        old = (history.AGE_MAX_S + 1, *B[1:])
        self.assertEqual([C], self.told([C, old]))

    def test_only_members_of_the_pool_are_named(self):
        removed = (20, {'c': 0, 'gone': 1}, 1021)
        self.assertEqual([C], self.told([removed]))
        self.assertEqual([(20, {}, 1021)], self.told([C], members='ab'))
        self.assertEqual({}, majority.agreed(
            [{'foreign': [C]}], {'pool': {'a', 'b', 'c'}}))

    def test_no_more_is_told_than_a_message_takes(self):
        half = {f'm{number}': 1 for number in range(history.WEIGHTS_MAX // 2)}
        words = {f'p{number}': [(5, half, 1021), (9, {'x': 1}, 1021)]
                 for number in range(4)}
        found = majority.agreed([words], {
            pool_id: {*half, 'x'} for pool_id in words})
        AGED.check(found)
        self.assertEqual({'p0': 2}, {
            pool_id: len(changes) for pool_id, changes in found.items()})

    def test_of_nobody_nothing_is_told(self):
        self.assertEqual({}, majority.agreed([], {'pool': {'a'}}))
        self.assertEqual([], self.told([], []))

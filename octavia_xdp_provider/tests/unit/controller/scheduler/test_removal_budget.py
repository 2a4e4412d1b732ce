# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import removal_budget
from octavia_xdp_provider.tests.unit import base as unit

Why = decision.Why


def move(key, add=(), **remove):
    return decision.Move(key, frozenset(), add, remove)


class TestRemovalBudget(unit.TestCase):

    def test_the_allowance_is_a_share_with_a_floor(self):
        self.assertEqual(200, removal_budget.allowance(1000, 20, 10))
        self.assertEqual(10, removal_budget.allowance(30, 20, 10))

    def test_removals_from_failed_nodes_end_with_the_budget(self):
        moves = [move(f'lb{number}', dead=Why.DEAD, bad=Why.FAILING)
                 for number in range(3)]
        kept, left_out = removal_budget.cut(moves, 3)
        self.assertEqual(3, left_out)
        self.assertEqual([2, 1], [len(one.remove) for one in kept])

    def test_additions_and_the_operators_wishes_are_never_left_out(self):
        moves = [move('x', ('n',), dead=Why.DEAD),
                 move('y', off=Why.DISABLED), move('z', full=Why.SURPLUS)]
        kept, left_out = removal_budget.cut(moves, 0)
        self.assertEqual(1, left_out)
        self.assertEqual([move('x', ('n',)), *moves[1:]], kept)

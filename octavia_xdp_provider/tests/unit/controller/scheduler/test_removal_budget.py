# SPDX-License-Identifier: Apache-2.0

from octavia_xdp_provider.controller.scheduler import decision
from octavia_xdp_provider.controller.scheduler import removal_budget
from octavia_xdp_provider.tests.unit import base as unit

Reason = decision.Reason


def move(key, add=(), **remove):
    return decision.Move(key, frozenset(), add, remove)


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

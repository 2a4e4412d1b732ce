# SPDX-License-Identifier: Apache-2.0
"""The database's clock is set back by hours, and nothing waits that long.
"""

from octavia_xdp_provider.controller.scheduler import liveness
from octavia_xdp_provider.tests.unit.controller import advancing

BACK_S = 7200


class TestClockSetBack(advancing.AdvanceTestCase):

    def claimed(self, owner):
        return [item.load_balancer_id
                for item in self.store.claim(owner, 9, 10)]

    def test_dead_controllers_items_are_taken_over(self):
        self.store.mark(['lb'])
        self.assertEqual(['lb'], self.claimed('dead'))
        self.assertEqual([], self.claimed('mine'))
        self.now -= BACK_S
        self.assertEqual(['lb'], self.claimed('mine'))
        self.assertEqual([], self.claimed('another'))

    def test_items_due_later_are_processed(self):
        self.store.mark(['lb'])
        item, = self.store.claim('mine', 1, 10)
        self.store.finish(item, 'mine', 60)
        self.assertEqual([], self.claimed('mine'))
        self.now -= BACK_S
        self.assertEqual(['lb'], self.claimed('mine'))

    def test_dead_leaders_lease_ends(self):
        first = self.store.acquire('lease', 'dead', 10)
        self.assertIsNone(self.store.acquire('lease', 'mine', 10))
        self.now -= BACK_S
        self.assertEqual(first + 1, self.store.acquire('lease', 'mine', 10))
        self.assertIsNone(self.store.acquire('lease', 'another', 10))

    def test_node_that_died_before_is_noticed(self):
        watched = liveness.Liveness(7.5, 60)
        for now in (100_000, 100_005):
            watched.observe(now, [now])
        begin = 100_005 - BACK_S
        silence = []
        for passed in range(0, 40, 5):
            watched.observe(begin + passed, [100_005, begin + passed])
            silence.append(watched.silence_s(begin + passed, 100_005))
            self.assertEqual(0, watched.silence_s(
                begin + passed, begin + passed))
        # Silence counts from the other node's first report.
        self.assertEqual([0, *range(0, 35, 5)], silence)

    def test_failing_change_does_not_stay_pending(self):
        self.request(advancing.created())
        self.commit()
        self.work()
        self.now -= BACK_S
        self.report(error='a map is full')
        self.work()
        self.assertEqual(('ACTIVE', 'ERROR'), (
            self.provisioning(), self.octavia.operating('lb')))

    def test_rolled_back_change_is_dropped_within_minutes(self):
        self.do(advancing.created())
        self.request(advancing.member('update', 'm1', fields={'weight': 9}))
        self.work()
        self.now -= BACK_S
        for _ in range(40):
            self.work()
            self.now += 5
        self.assertIsNone(self.store.load_balancer('lb').pending)

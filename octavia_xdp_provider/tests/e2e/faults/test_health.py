# SPDX-License-Identifier: Apache-2.0
"""Members that die and come back, and what the tenant sees of it."""

import time

from lab.fabric import client
from lab.fabric import members
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import shared

PAIR = ('member1', 'member2')


class TestHealth(shared.WebTestCase):

    OPTIONS = {'hosts': PAIR}

    def wait_all(self, status):
        self.wait_statuses(self.pool, dict.fromkeys(PAIR, status))

    def test_dead_member_loses_and_regains_traffic(self):
        with client.Load(self.lab, self.url(self.balancer)) as load:
            self.wait('requests', lambda: load.answers.total > 10)
            self.end_server(members.http_name('member2'))
            self.wait_enabled(self.balancer, 1)
            detected_at = time.monotonic()
            self.wait_statuses(self.pool, {'member1': 'ONLINE',
                                           'member2': 'ERROR'})
            self.check_requests(50, ['member1'])
        # Refused by the member, until it was found dead.
        self.assertTrue(load.times, 'no request met the dead member')
        self.assertEqual([], [
            moment for moment in load.times if moment > detected_at])
        self.assertEqual('DEGRADED', self.operating_status())

        self.start_server(members.http_name('member2'))
        self.wait_all('ONLINE')
        self.wait('ONLINE of the load balancer',
                  lambda: self.operating_status() == 'ONLINE')
        self.wait_enabled(self.balancer, 2)
        self.check_requests(50, PAIR)

    def operating_status(self):
        return self.sdk.get_load_balancer(self.balancer.id).operating_status

    def test_server_with_another_code_is_down(self):
        """The monitor decides which code is another one; of the last member
        that is down the VIP is withdrawn."""
        self.addCleanup(self.change_monitor, url_path='/')
        self.change_monitor(url_path='/missing')
        self.wait_all('ERROR')
        self.wait_routes(self.balancer, ())
        self.change_monitor(expected_codes='200,404')
        self.wait_all('ONLINE')
        self.wait_routes(self.balancer)

    def change_monitor(self, **fields):
        monitor = self.sdk.get_pool(self.pool.id).health_monitor_id
        self.sdk.update_health_monitor(monitor, **fields)
        self.wait_active(self.balancer)

    def test_new_monitor_takes_no_member_out(self):
        """Members that work keep their traffic until proven down."""
        self.sdk.delete_health_monitor(
            self.sdk.get_pool(self.pool.id).health_monitor_id)
        self.wait_active(self.balancer)
        self.wait_all('NO_MONITOR')
        with client.Load(self.lab, self.url(self.balancer)) as load:
            self.sdk.create_health_monitor(
                name=self.unique('hm'), pool_id=self.pool.id, type='HTTP',
                delay=base.DELAY, timeout=base.TIMEOUT,
                max_retries=base.RISE, max_retries_down=base.FALL)
            self.wait_active(self.balancer)
            self.wait_all('ONLINE')
        self.assertEqual([], load.answers.failures)

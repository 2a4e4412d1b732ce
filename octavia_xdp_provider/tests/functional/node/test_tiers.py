# SPDX-License-Identifier: Apache-2.0
"""From a client by an LB node and a proxy to a web server."""

import http.client
import signal

from octavia_xdp_provider.tests.functional.support import tier_bed

BOTH = {(web, proxy) for web in tier_bed.WEBS for proxy in tier_bed.PROXIES}


class TestProxied(tier_bed.TierBed):

    def setUp(self):
        super().setUp()
        self.serve(tier_bed.proxied(tier_bed.document()))
        self.wait_up(*tier_bed.PROXIES)

    def test_requests_reach_all_webs_by_all_proxies(self):
        for vip in (tier_bed.VIP, tier_bed.VIP6):
            for node in tier_bed.NODES:
                self.route(node)
                answers = {self.get(vip) for _ in range(60)}
                self.assertEqual(BOTH, answers)

    def test_proxy_that_hangs_is_out_though_its_socket_accepts(self):
        self.proxies['proxy1'].freeze()
        self.wait_up('proxy2')
        # Its kernel still takes connections at the VIP.
        self.connect(host='proxy1').close()
        self.assertEqual({'proxy2'}, {self.get()[1] for _ in range(20)})
        self.proxies['proxy1'].signal(signal.SIGCONT)
        self.wait_up(*tier_bed.PROXIES)

    def test_death_of_haproxy_refuses_nobody(self):
        refused, broken, served = [], [], set()
        killed = self.proxies['proxy1'].signal(signal.SIGKILL)
        for number in range(200):
            if number in (50, 100):
                killed |= self.proxies['proxy1'].signal(signal.SIGKILL)
            try:
                served.add(self.get()[1])
            except ConnectionRefusedError as error:
                refused.append(error)
            except (OSError, http.client.HTTPException) as error:
                broken.append(error)
        self.assertGreater(len(killed), 2)
        self.assertEqual(([], set(tier_bed.PROXIES)), (refused, served))
        # In flight.
        self.assertLessEqual(len(broken), 3)

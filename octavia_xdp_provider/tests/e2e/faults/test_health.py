# SPDX-License-Identifier: Apache-2.0
"""Members that die and come back, and what the tenant sees of it."""

import signal
import time

from lab import processes
from lab.fabric import client
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base


class TestHealth(base.LabTestCase):

    def stop_server(self, host):
        processes.kill(self.lab, members.http_name(host), signal.SIGTERM)
        self.wait(f'end of the server on {host}', lambda: not
                  processes.alive(self.lab, members.http_name(host)))
        self.addCleanup(self.start_server, host)

    def start_server(self, host):
        if not processes.alive(self.lab, members.http_name(host)):
            processes.restart(self.lab, members.http_name(host))

    def statuses(self, pool, made):
        return {host: self.member(pool, member).operating_status
                for host, member in made.items()}

    def test_dead_member_loses_and_regains_traffic_in_time(self):
        balancer, _, pool, made = self.create_web()
        with client.Load(self.lab, self.url(balancer), timeout=1) as load:
            self.sleep(0.5)
            stopped = time.monotonic()
            self.stop_server('member2')
            self.sleep(base.DOWN_LIMIT + 2)
        # A connection that came to the dead member was refused: that the
        # last one did so within the limit is the contract.
        self.assertTrue(load.times, 'no request met the dead member')
        self.assertLess(max(load.times) - stopped, base.DOWN_LIMIT)
        self.wait('ERROR of member2', lambda: self.statuses(pool, made) == {
            'member1': 'ONLINE', 'member2': 'ERROR', 'member3': 'ONLINE',
            'member4': 'ONLINE'})
        self.assertEqual('DEGRADED', self.sdk.get_load_balancer(
            balancer.id).operating_status)

        with client.Load(self.lab, self.url(balancer), timeout=1) as load:
            started = time.monotonic()
            self.start_server('member2')
            self.wait('first answer of member2', lambda: (
                load.answers.count['member2']), interval=0.02)
            took = time.monotonic() - started
        self.assertLess(took, base.UP_LIMIT + 1)
        self.wait('ONLINE of all', lambda: set(
            self.statuses(pool, made).values()) == {'ONLINE'})
        self.wait('ONLINE of the load balancer', lambda: (
            self.sdk.get_load_balancer(balancer.id).operating_status
            == 'ONLINE'))

    def test_server_with_another_code_is_down(self):
        """A server that answers with another code is down."""
        balancer, _, pool, made = self.create_web(
            hosts=['member1', 'member2'])
        monitor = self.sdk.find_health_monitor(
            self.sdk.get_pool(pool.id).health_monitor_id)
        self.sdk.update_health_monitor(monitor, url_path='/missing')
        self.wait_active(balancer)
        self.wait('ERROR of both', lambda: set(
            self.statuses(pool, made).values()) == {'ERROR'})
        self.wait_routes(balancer, ())
        self.sdk.update_health_monitor(monitor, expected_codes='200,404')
        self.wait_active(balancer)
        self.wait('ONLINE of both', lambda: set(
            self.statuses(pool, made).values()) == {'ONLINE'})
        self.wait_routes(balancer)

    def probe_through_datapath(self):
        """All nodes do so until the end of the test."""
        def switch(options):
            for node in topology.NODES:
                nodes.configure(self.lab, node, options)
                nodes.restart(self.lab, node, nodes.AGENT)

        self.addCleanup(switch, None)
        switch({'agent': {'probe_through_datapath': True}})

    def test_probes_through_the_datapath_find_a_member_without_the_vip(self):
        """Only probes that go as traffic does find it."""
        balancer, _, pool, made = self.create_web(
            hosts=['member1', 'member2'])
        members.remove_vip(self.lab, balancer.vip_address, ['member1'])
        self.probe_through_datapath()
        self.wait('ERROR of member1', lambda: self.statuses(pool, made) == {
            'member1': 'ERROR', 'member2': 'ONLINE'})
        members.add_vip(self.lab, balancer.vip_address, ['member1'])
        self.wait('ONLINE of both', lambda: set(
            self.statuses(pool, made).values()) == {'ONLINE'})

    def test_tcp_monitor_finds_a_closed_port(self):
        balancer, _, pool, made = self.create_web(
            hosts=['member3', 'member4'], monitor='TCP')
        self.stop_server('member3')
        self.wait('ERROR of member3', lambda: self.statuses(pool, made) == {
            'member3': 'ERROR', 'member4': 'ONLINE'})
        answers = client.requests(self.lab, self.url(balancer), 50)
        self.assertEqual([], answers.failures)
        self.assertEqual({'member4'}, set(answers.count))

    def test_udp_connect_monitor_finds_a_closed_port(self):
        """A closed port answers with ICMP; silence or an answer is up."""
        balancer, _, pool, made = self.create_web(
            hosts=['member1', 'member2'], port=members.UDP_PORT,
            protocol='UDP', monitor='UDP-CONNECT',
            # The least that Octavia's API takes for this type.
            delay=3)
        server = members.udp_name('member1')
        processes.kill(self.lab, server, signal.SIGTERM)
        self.addCleanup(self.start_process, server)
        self.wait('ERROR of member1', lambda: self.statuses(pool, made) == {
            'member1': 'ERROR', 'member2': 'ONLINE'})
        answers = client.udp(self.lab, balancer.vip_address,
                             members.UDP_PORT, 30)
        self.assertEqual({'member2': 30}, dict(answers.count))

    def test_ping_monitor_does_not_mind_a_dead_server(self):
        """A host that is up answers, whatever its server does."""
        _, _, pool, made = self.create_web(
            hosts=['member1', 'member2'], monitor='PING')
        self.stop_server('member1')
        self.sleep(base.DOWN_LIMIT)
        self.assertEqual({'member1': 'ONLINE', 'member2': 'ONLINE'},
                         self.statuses(pool, made))

    def start_process(self, name):
        if not processes.alive(self.lab, name):
            processes.restart(self.lab, name)

    def test_without_a_monitor_members_are_used_at_once(self):
        balancer, _, pool, made = self.create_web(
            hosts=['member1'], monitor=None)
        self.assertEqual({'member1': 'NO_MONITOR'},
                         self.statuses(pool, made))
        answers = client.requests(self.lab, self.url(balancer), 20)
        self.assertEqual([], answers.failures)

    def test_new_monitor_takes_no_member_out(self):
        """Members that work keep their traffic until proven down."""
        balancer, _, pool, made = self.create_web(monitor=None)
        with client.Load(self.lab, self.url(balancer), timeout=2) as load:
            self.sdk.create_health_monitor(
                name=self.unique('hm'), pool_id=pool.id, type='HTTP',
                delay=base.DELAY, timeout=base.TIMEOUT,
                max_retries=base.RISE, max_retries_down=base.FALL)
            self.wait_active(balancer)
            self.wait('ONLINE of all', lambda: set(
                self.statuses(pool, made).values()) == {'ONLINE'})
        self.assertEqual([], load.answers.failures)

    def test_torn_queue_file_is_set_aside(self):
        balancer, *_ = self.create_web()
        node = 'lb1'
        queue = nodes.run_directory(self.lab, node) / 'queue'
        rejected = queue / 'rejected'
        good = b'OXPQ' + bytes(60)
        # The health checker's process never uses names of the past.
        for name, content in (
                ('0000000000000001-0000000000000001.delta', good[:40]),
                ('0000000000000001-0000000000000002.delta', b'x' * 96),
                ('stray.txt', b'hello')):
            temporary = queue / f'.tmp-test-{name}'
            temporary.write_bytes(content)
            temporary.rename(queue / name)
            self.wait(f'{name} set aside', lambda name=name: (
                rejected / f'{name}.reason').exists(), 20)
            self.addCleanup((rejected / name).unlink)
            self.addCleanup((rejected / f'{name}.reason').unlink)
        self.assertIn('torn', (
            rejected / '0000000000000001-0000000000000001.delta.reason'
        ).read_text())
        # The next one is applied.
        self.stop_server('member1')
        self.wait('3 members on lb1',
                  lambda: self.enabled(node, balancer) == 3, 20)
        self.start_server('member1')
        self.wait('4 members on lb1',
                  lambda: self.enabled(node, balancer) == 4, 20)

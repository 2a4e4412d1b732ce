# SPDX-License-Identifier: Apache-2.0
"""Configurations of load balancers that this product is set beside."""

from bench import errors
from bench.software import cost_probe
from bench.software import haproxy
from bench.software import interface
from bench.software import ipvs
from bench.software import kernel
from bench.software import nginx
from bench.software import options
from octavia_xdp_provider.tests.unit import base

MEMBERS = (interface.Member('192.0.2.1', 80, 'one', 3),
           interface.Member('192.0.2.2', 80, 'other', 0))
SERVICE = interface.Service('203.0.113.1', 80, 'tcp', MEMBERS)
SIXTH = interface.Service(
    '2001:db8::1', 443, 'tcp', (interface.Member('2001:db8::2', 8443, 'one'),))


class TestOptions(base.TestCase):

    def refused(self, **given):
        return str(self.assertRaises(
            errors.BenchError, options.read, 'haproxy', haproxy.Configuration,
            given))

    def test_what_is_not_known_is_refused_by_name(self):
        text = self.refused(thread=2)
        self.assertIn('software haproxy: unknown key "thread"', text)
        self.assertIn('threads', text)

    def test_values_of_other_types_are_refused(self):
        for value in ('2', 1.5, True, None):
            self.assertIn('is no int', self.refused(threads=value))
        self.assertIn('is negative', self.refused(threads=-1))

    def test_whole_numbers_are_fractions_too(self):
        self.assertEqual(1, options.read(
            'kernel', kernel.Configuration, {'detection_s': 1}).detection_s)


class TestHaproxy(base.TestCase):

    def text(self, **given):
        return haproxy.configuration_text(
            [SERVICE, SIXTH], haproxy.Configuration(**given))

    def test_as_amphorae_have_it(self):
        lines = self.text().splitlines()
        for line in ('  maxconn 100000', '  retries 3', '  option redispatch',
                     '  timeout client 50000ms', '  timeout connect 5000ms',
                     '  timeout server 50000ms', '  balance roundrobin',
                     '  bind 203.0.113.1:80', '  bind [2001:db8::1]:443',
                     '  server member1 192.0.2.1:80 weight 3 check inter 5s '
                     'fall 3 rise 3',
                     '  server member1 [2001:db8::2]:8443 weight 1 check '
                     'inter 5s fall 3 rise 3'):
            self.assertIn(line, lines)
        self.assertNotIn('nbthread', self.text())

    def test_what_can_be_chosen(self):
        text = self.text(threads=4, check_interval_s=0, connections_max=10)
        self.assertIn('  nbthread 4\n', text)
        self.assertIn('  maxconn 20\n', text)
        self.assertNotIn('check', text)


class TestNginx(base.TestCase):

    def text(self, *services, module=None):
        return nginx.configuration_text(
            services, nginx.Configuration(), module, '/folder', 2000)

    def test_members_without_weight_have_no_line(self):
        text = self.text(SERVICE)
        self.assertIn('    server 192.0.2.1:80 weight=3;\n', text)
        self.assertNotIn('192.0.2.2', text)

    def test_a_service_without_members_ends_connections(self):
        text = self.text(interface.Service('203.0.113.1', 80, 'tcp', ()))
        self.assertIn('    return "";\n', text)
        self.assertNotIn('upstream', text)

    def test_datagrams_and_the_module(self):
        text = self.text(
            interface.Service('203.0.113.1', 53, 'udp', MEMBERS),
            module='/module.so')
        self.assertTrue(text.startswith('load_module /module.so;\n'))
        self.assertIn('    listen 203.0.113.1:53 udp reuseport;\n', text)


class TestIpvs(base.TestCase):

    def test_a_service(self):
        self.assertEqual(
            '-A -t 203.0.113.1:80 -s mh -b mh-port',
            ipvs.add_service(SERVICE, ipvs.Configuration()))
        self.assertEqual(
            '-A -t [2001:db8::1]:443 -s rr', ipvs.add_service(
                SIXTH, ipvs.Configuration(scheduler='rr',
                                          scheduler_flags='')))

    def test_members_that_stay_as_they_are_have_no_line(self):
        changed = interface.Service('203.0.113.1', 80, 'tcp', (
            interface.Member('192.0.2.1', 80, 'one', 3),
            interface.Member('192.0.2.2', 80, 'other', 1),
            interface.Member('192.0.2.3', 80, 'third')))
        self.assertEqual(
            ['-e -t 203.0.113.1:80 -r 192.0.2.2:80 -i -w 1',
             '-a -t 203.0.113.1:80 -r 192.0.2.3:80 -i -w 1'],
            ipvs.changes(SERVICE, changed))
        self.assertEqual(
            ['-e -t 203.0.113.1:80 -r 192.0.2.2:80 -i -w 0',
             '-d -t 203.0.113.1:80 -r 192.0.2.3:80'],
            ipvs.changes(changed, SERVICE))


class TestSockets(base.TestCase):
    """Lines of ss, as iproute2 6.1 prints them."""

    SIZES = {'TCP': 2000, 'tw_sock_TCP': 256}

    def test_objects_and_what_is_in_them(self):
        text = (
            'LISTEN 0 4096 203.0.113.1:80 0.0.0.0:* skmem:(r0,rb131072,t0,'
            'tb16384,f0,w0,o0,bl0,d7)\n'
            'ESTAB 0 0 203.0.113.1:80 198.18.0.1:4 skmem:(r512,rb131072,t9,'
            'tb87040,f3584,w100,o20,bl3,d0)\n'
            'TIME-WAIT 0 0 203.0.113.1:80 198.18.0.1:5\n')
        self.assertEqual(2 * 2000 + 256 + 512 + 3584 + 100 + 20 + 3,
                         cost_probe.socket_bytes(text, self.SIZES))
        self.assertEqual(0, cost_probe.socket_bytes('', self.SIZES))

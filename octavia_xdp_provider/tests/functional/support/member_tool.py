# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-member on a host in a namespace, and all that it may touch."""

import json

from octavia_xdp_provider.tests.functional.support import fabric

FOREIGN = fabric.DATAPATH / 'build/foreign.bpf.o'
OTHER_VIP = '203.0.113.11'
FULL = ('setup', '--vip', fabric.VIP, '--vip', fabric.VIP6, *fabric.NODES,
        '--sysctl', '--port', f'{fabric.VIP}:80/tcp=8080', '--dscp',
        f'9={fabric.VIP6}', 'eth0')


class Tool(fabric.Fabric):

    def addresses(self):
        """Addresses of lo."""
        links = json.loads(fabric.command(
            'ip', '-n', self.member, '-j', 'address', 'show', 'dev', 'lo'))
        return {entry['local'] for entry in links[0]['addr_info']}

    def link(self):
        return json.loads(fabric.command(
            'ip', '-n', self.member, '-j', '-d', 'link', 'show',
            'eth0'))[0]

    def program(self):
        return self.link().get('xdp', {}).get('prog', {}).get('id')

    def state(self):
        """All that a setup may touch."""
        link = self.link()
        return {
            'addresses': self.addresses(),
            'xdp': link.get('xdp'),
            'qdisc': self.run_in(self.member, 'tc', 'qdisc', 'show', 'dev',
                                 'eth0'),
            'filters': [
                self.run_in(self.member, 'tc', 'filter', 'show', 'dev',
                            'eth0', direction)
                for direction in ('ingress', 'egress')],
            'sysctls': self.run_in(self.member, 'sysctl', '-a',
                                   '--pattern', r'^net\.ipv[46]\.conf'),
        }

    def check(self, *words):
        done = self.try_tool('check', '--json', *words, 'eth0')
        findings = json.loads(done.stdout)
        self.assertEqual(findings['ok'], done.returncode == 0)
        return {finding['what']: finding['text']
                for finding in findings['findings']
                if finding['level'] == 'wrong'}

    def add_filter(self):
        """A filter of somebody else's."""
        self.run_in(self.member, 'tc', 'filter', 'add', 'dev', 'eth0',
                    'ingress', 'bpf', 'direct-action', 'object-file',
                    str(FOREIGN), 'section', 'tc')

    def refused(self, *words):
        before = self.state()
        done = self.try_tool(*words)
        self.assertNotEqual(0, done.returncode)
        self.assertEqual(before, self.state())
        return done.stderr

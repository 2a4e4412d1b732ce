# SPDX-License-Identifier: Apache-2.0
"""Probes inside the encapsulation, with all that takes part in them: the
node's pass, checker, result handler, datapath, a router and a member."""

import copy
import functools

from lab import processes
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import probed


class TestProbes(probed.Probed):

    def test_truth_about_tunnel_and_address(self):
        self.wait_states(others='up')
        # One VIP alone, then all of them.
        self.address_on_lo('del', self.vips[0])
        self.wait_states(others='up', lb0='down')
        self.address_on_lo('del', *self.vips[1:])
        self.wait_states(others='down')
        self.address_on_lo('add', *self.vips)
        self.wait_states(others='up')
        processes.run(self.lab, probed.MEMBER, [probed.TOOL, 'remove', 'eth0'])
        self.wait_states(others='down')
        self.setup_member()
        self.wait_states(others='up')
        counts = self.datapath.probe_outcomes()
        self.assertEqual({datapath.ProbeOutcome.SENT}, {
            outcome for outcome, count in counts.items() if count})

    def test_what_the_kernel_has_still_to_cut_into_packets(self):
        """Checksums and segments are left to the device, here to software."""
        request = b'GET /' + b'x' * 30000 + b' HTTP/1.0\r\n\r\n'
        for number, kind in enumerate(probed.KINDS):
            opened = self.connected(self.vips[number])
            opened.sendall(request)
            answer = b''.join(iter(functools.partial(opened.recv, 65536),
                                   b''))
            # Its path is read to the end and is no file.
            self.assertIn(b' 404 ', answer[:20], kind)

    def test_a_member_that_moves_stays_up(self):
        """Its tunnel leads to another address now, where it is as well."""
        self.wait_states(others='up')
        name = f'lb{len(probed.KINDS) + 1}'
        before = self.datapath.tables(self.key_of(name))
        _generation, document = self.balancers[name]
        moved = copy.deepcopy(document)
        moved['pools']['pool']['members']['m1']['tunnel'] = dict(
            probed.TUNNELS[0], address=probed.OWN[6], key=9)
        self.balancers[name] = (2, moved)
        self.run_pass()
        member, = self.datapath.members(self.key_of(name))
        self.assertEqual((True, probed.NAMED, probed.OWN[6], 9), (
            member.healthy, member.address, member.tunnel.address,
            member.tunnel.key))
        self.assertEqual(before, self.datapath.tables(self.key_of(name)))
        self.wait_states(others='up')
        # The way that it went before is of no interest any more.
        processes.run(self.lab, probed.ROUTER, [
            'ip', 'route', 'add', 'blackhole', f'{probed.OWN[4]}/32'])
        vip = moved['vip_address']
        opened = self.connected(vip)
        opened.sendall(b'GET / HTTP/1.0\r\n\r\n')
        self.assertIn(b' 200 ', opened.recv(65536)[:20])

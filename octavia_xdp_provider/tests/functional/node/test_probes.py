# SPDX-License-Identifier: Apache-2.0
"""Probes inside the encapsulation, with all that takes part in them: the
node's pass, checker, result handler, datapath, a router and a member."""

import copy
import functools
import socket

from lab import namespaces
from lab import paths
from lab import processes
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.functional.support import probed
from octavia_xdp_provider.tests.support import form


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

    @form.in_long_form
    def test_switched_off_and_on(self):
        self.wait_states(others='up')
        for number in range(len(probed.TUNNELS)):
            # Nothing else could probe them.
            del self.balancers[f'lb{len(probed.KINDS) + 1 + number}']
        self.reconciler = self.make_reconciler(enabled=False)
        self.run_pass()
        self.run_pass()
        self.wait_states(others='up')
        self.assertEqual({}, self.datapath.probes())
        self.assertNotIn('oxp_probe', self.filters())
        self.reconciler = self.make_reconciler()
        self.run_pass()
        marks = self.marks()
        self.assertEqual({document['vip_address'] for _generation, document
                          in self.balancers.values()}, set(marks))
        self.assertIn('oxp_probe', self.filters())
        with namespaces.inside(self.lab, probed.NODE):
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(opened.close)
        unknown = max(marks.values()) + 1
        opened.setsockopt(socket.SOL_SOCKET, probed.SO_MARK, unknown)
        opened.sendto(b'x', (self.vips[0], probed.UDP_PORT))
        self.assertEqual(1, self.datapath.probe_outcomes()[
            datapath.ProbeOutcome.DROP_UNKNOWN])


@form.in_long_form
class TestVlan(probed.Probed):
    """The node's uplink is a VLAN interface."""

    uplink = 'eth0.100'

    def ends(self, host):
        if host != probed.NODE:
            return super().ends(host)
        for end, name in ((probed.NODE, 'eth0'), (probed.ROUTER, probed.NODE)):
            # Tags must be in the packets that XDP sees.
            processes.run(self.lab, end, ['ethtool', '-K', name, 'rxvlan',
                                          'off', 'txvlan', 'off'])
            try:
                processes.run(self.lab, end, [
                    'ip', 'link', 'add', f'{name}.100', 'link', name, 'type',
                    'vlan', 'id', '100'])
            except paths.LabError as error:
                self.skipTest(f'the kernel knows no VLANs: {error}')
            namespaces.up(self.lab, end, f'{name}.100')
        return self.uplink, f'{probed.NODE}.100'

    def test_truth_about_the_address(self):
        self.wait_states(others='up')
        self.address_on_lo('del', self.vips[0])
        self.wait_states(others='up', lb0='down')
        self.assertIn('oxp_probe', self.filters())

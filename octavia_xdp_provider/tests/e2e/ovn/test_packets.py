# SPDX-License-Identifier: Apache-2.0
"""Single packets to hypervisors: what nobody may send."""

import socket
import struct

from scapy.layers import inet

from lab import namespaces
from lab import paths
from lab.fabric import client
from lab.fabric import topology
from lab.ovn import host_agents
from lab.ovn import hypervisors
from lab.ovn import vms
from octavia_xdp_provider.tests.e2e.support import zero_touch

GENEVE = 6081
SO_NO_CHECK = 11  # linux/socket.h: UDP's checksum stays 0, as LB nodes have it


class TestPackets(zero_touch.ZeroTouchTestCase):

    def drops(self):
        """Of hv2, by outcome."""
        found = {}
        for row in host_agents.show(self.lab, 'hv2', 'drops'):
            found[row['outcome']] = found.get(row['outcome'],
                                              0) + row['packets']
        return found

    def send_in_tunnel(self, sender, key, inner):
        """A packet for hv2, in Geneve, from one of the lab's hosts."""
        with (namespaces.inside(self.lab, sender),
              socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one):
            one.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)
            one.sendto(struct.pack('!HHI', 0, 0x0800, key << 8)
                       + bytes(inner), (hypervisors.address('hv2'), GENEVE))

    def test_foreign_senders_wrong_keys_and_other_ports_reach_nobody(self):
        balancer = self.balancer('red', hosts=['hv2'])
        row, = self.entries(balancer)['hv2']
        node, key = topology.NODES[0], row['key']

        def begin(port, to=zero_touch.PORT):
            return inet.IP(src=paths.CLIENT_ADDRESS,
                           dst=balancer.vip_address) / inet.TCP(
                               sport=port, dport=to, flags='S', seq=1)
        for port, sender, used, to, outcome in (
                (20001, client.CLIENT, key, zero_touch.PORT, 'drop_source'),
                (20002, node, key ^ 1, zero_touch.PORT, 'drop_key'),
                (20003, node, key, vms.HTTP_PORT, 'drop_mismatch')):
            before = self.drops().get(outcome, 0)
            self.send_in_tunnel(sender, used, begin(port, to))
            self.wait(outcome, lambda before=before, outcome=outcome: (
                self.drops().get(outcome, 0) > before))
        # What an LB node sends is let in, just so.
        self.send_in_tunnel(node, key, begin(20000))
        self.wait('its flow', lambda: 20000 in self.client_ports())
        self.assertEqual({20000}, self.client_ports() & set(
            range(20000, 20004)))

    def client_ports(self):
        return {int(row['client'].rpartition(':')[2])
                for row in host_agents.show(self.lab, 'hv2', 'flows')}

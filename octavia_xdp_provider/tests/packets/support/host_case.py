# SPDX-License-Identifier: Apache-2.0
"""A hypervisor, and packets of clients and of a VM through it."""

import unittest

from scapy.layers import inet

from octavia_xdp_provider.host import types
from octavia_xdp_provider.tests.packets.support import host


class HostCase(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.host = host.Hypervisor()
        self.addCleanup(self.host.close)

    def client_packet(self, v6, protocol='tcp', flags='A', source=None,
                      vip=None, sport=40000, payload=b'request'):
        layer = (inet.TCP(sport=sport, dport=host.LISTENER, flags=flags)
                 if protocol == 'tcp'
                 else inet.UDP(sport=sport, dport=host.LISTENER))
        return host.ip(v6, source or (host.CLIENT, host.CLIENT6)[v6],
                       vip or (host.VIP, host.VIP6)[v6]) / layer / payload

    def vm_packet(self, v6, protocol='tcp', flags='A', destination=None,
                  dport=40000, port=host.LOCAL_PORT, options=(),
                  payload=b'answer'):
        layer = (inet.TCP(sport=port, dport=dport, flags=flags,
                          options=list(options))
                 if protocol == 'tcp' else inet.UDP(sport=port, dport=dport))
        return host.ip(v6, (host.FIXED, host.FIXED6)[v6],
                       destination or (host.CLIENT, host.CLIENT6)[v6]
                       ) / layer / payload

    def arrives(self, outcome, v6, number=1, protocol='tcp', outer=None,
                **packet):
        inner = self.client_packet(v6, protocol, **packet)
        frame = host.encapsulated(inner, host.key(number, protocol, v6),
                                  inner_v6=v6, **(outer or {}))
        result = self.host.nic(frame)
        self.assertEqual(outcome, result[2])
        return result[1]

    def answers(self, outcome, v6, protocol='tcp', port_id=host.PORT,
                **packet):
        result = self.host.tap_in(
            host.from_vm(self.vm_packet(v6, protocol, **packet)), port_id)
        self.assertEqual(outcome, result[2])
        return result[1]

    def confirmed(self):
        return self.host.datapath.flows(types.Table.CONFIRMED)

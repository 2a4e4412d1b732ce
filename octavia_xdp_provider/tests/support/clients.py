# SPDX-License-Identifier: Apache-2.0
"""Services, and packets of their clients, for tests of octavia-xdp-ctl."""

import dataclasses

from octavia_xdp_provider.ctl import packet
from octavia_xdp_provider.node import types

VIP, VIP_V6 = '192.0.2.1', '2001:db8::1'
CLIENT, CLIENT_V6 = '198.51.100.7', '2001:db8:7::7'
HTTP = types.Key(VIP, 'TCP', 80)
DNS = types.Key(VIP, 'UDP', 53)
HTTP_V6 = types.Key(VIP_V6, 'TCP', 80)
TCP = packet.Wanted('tcp', CLIENT, VIP, 40000, 80)
UDP = packet.Wanted('udp', CLIENT, VIP, 40000, 53)
TCP_V6 = packet.Wanted('tcp', CLIENT_V6, VIP_V6, 40000, 80)


def with_(wanted, **more):
    return packet.frame(dataclasses.replace(wanted, **more))

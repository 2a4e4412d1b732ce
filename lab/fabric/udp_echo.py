# SPDX-License-Identifier: Apache-2.0
"""A UDP server that answers with a name and what it was sent.

Started as: python -m lab.fabric.udp_echo PORT NAME
"""

import socket
import sys

# What Linux calls IP_PKTINFO; the socket module has no name for it.
IP_PKTINFO = 8


def serve(port, name):
    """Answer from the address that was asked, a VIP for example."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        server.bind(('0.0.0.0', port))
        while True:
            data, control, _flags, client = server.recvmsg(65535, 256)
            server.sendmsg([name.encode() + b' ' + data],
                           [_source(control)], 0, client)


def _source(control):
    for level, kind, value in control:
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO):
            # struct in_pktinfo: ifindex, local address, header's address.
            # No interface: the route to the client says which.
            return level, kind, bytes(4) + value[8:12] + bytes(4)
    raise RuntimeError('the kernel did not tell where a packet went to')


if __name__ == '__main__':
    serve(int(sys.argv[1]), sys.argv[2])

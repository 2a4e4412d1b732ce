# SPDX-License-Identifier: Apache-2.0
"""A UDP server that answers with a name and what it was sent.

To WHENCE it answers with the name, and the address and port that this came
from. Started as: python -m lab.fabric.udp_echo PORT NAME
"""

import socket
import sys

WHENCE = b'whence'


def serve(port, name):
    """Answer from the address that was asked, a VIP for example."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        # IPv4 comes as ::ffff:a.b.c.d.
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        server.bind(('::', port))
        while True:
            data, control, _flags, client = server.recvmsg(65535, 256)
            if data == WHENCE:
                data = b'%s %d' % (client[0].encode(), client[1])
            server.sendmsg([name.encode() + b' ' + data],
                           [_source(control)], 0, client)


def _source(control):
    for level, kind, value in control:
        if (level, kind) == (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO):
            # struct in6_pktinfo: local address, interface. No interface:
            # the route to the client says which.
            return level, kind, value[:16] + bytes(4)
    raise RuntimeError('no destination came with a packet')


if __name__ == '__main__':
    serve(int(sys.argv[1]), sys.argv[2])

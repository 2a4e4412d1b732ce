# SPDX-License-Identifier: Apache-2.0
"""A UDP server that answers with a name and the received data.

To WHENCE it answers with the name, and the source address and port of the
datagram. Usage: python -m lab.fabric.udp_echo PORT NAME
"""

import contextlib
import socket
import sys

WHENCE = b'whence'


def serve(port, name):
    """Answer from the destination address of the request, a VIP perhaps."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        # IPv4 addresses are received as ::ffff:a.b.c.d.
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        server.bind(('::', port))
        while True:
            data, control, _flags, client = server.recvmsg(65535, 256)
            if data == WHENCE:
                data = b'%s %d' % (client[0].encode(), client[1])
            # Without a route to the client the answer is lost, no more.
            with contextlib.suppress(OSError):
                server.sendmsg([name.encode() + b' ' + data],
                               [_source(control)], 0, client)


def _source(control):
    for level, kind, value in control:
        if (level, kind) == (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO):
            # struct in6_pktinfo: local address, interface. With interface 0
            # the route to the client determines it.
            return level, kind, value[:16] + bytes(4)
    raise RuntimeError('no destination came with a packet')


if __name__ == '__main__':
    serve(int(sys.argv[1]), sys.argv[2])

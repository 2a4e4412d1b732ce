# SPDX-License-Identifier: Apache-2.0
"""Single large packets of the client, which may not be fragmented.

They go past the client's kernel, which may have learnt what fits already. No
connection of its is theirs, so that it remembers nothing of the answers.
"""

import dataclasses
import secrets
import socket
import time

from scapy.layers import inet
from scapy.layers import inet6

from lab import namespaces
from lab import paths
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import links

_ETHERNET = 14
_IPV4, _IPV6 = 0x0800, 0x86dd
_LOOK_S = 0.05


@dataclasses.dataclass(frozen=True)
class Answer:
    """To a packet that was sent to a server.

    :ivar mtu: of "fragmentation needed" or "packet too big"; None: the packet
        has arrived, and was answered with a reset, for it is of no
        connection.
    """

    mtu: int | None = None


ARRIVED = Answer()


def send(lab, address, port, length, timeout=1):
    """Send a TCP segment to a server, in a packet of this many bytes.

    :returns: the Answer of this address; None: there was none in time.
    """
    source_port = 20000 + secrets.randbelow(20000)
    router = _router(lab)
    packet = _packet(address, port, source_port, length)
    with (capture.Capture(lab, client.CLIENT, links.UPLINK,
                          f'src host {address}') as taken,
          namespaces.inside(lab, client.CLIENT),
          socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as one):
        one.sendto(packet, (
            links.UPLINK, _IPV6 if ':' in address else _IPV4, 0, 0, router))
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for other in list(taken.packets):
                found = _answer(other.data[_ETHERNET:], source_port)
                if found:
                    return found
            time.sleep(_LOOK_S)
    return None


def _packet(address, port, source_port, length):
    if ':' in address:
        head = inet6.IPv6(src=paths.CLIENT_ADDRESS_V6, dst=address)
    else:
        head = inet.IP(src=paths.CLIENT_ADDRESS, dst=address, flags='DF')
    head /= inet.TCP(sport=source_port, dport=port, flags='A', seq=1, ack=1)
    return bytes(head / bytes(length - len(head)))


def _router(lab):
    """The MAC address of the router, for the client."""
    with namespaces.link(lab, links.ROUTER) as netlink:
        link, = netlink.get_links(namespaces.index(netlink, client.CLIENT))
        return bytes.fromhex(
            link.get_attr('IFLA_ADDRESS').replace(':', ''))


def _answer(data, source_port):
    """What a packet says about the one from this port, if anything."""
    if data[0] >> 4 == 4:
        packet = inet.IP(data)
        error = packet.getlayer(inet.ICMP)
        if error and (error.type, error.code) == (3, 4):
            return _quoted(packet, error.nexthopmtu, source_port)
    else:
        packet = inet6.IPv6(data)
        error = packet.getlayer(inet6.ICMPv6PacketTooBig)
        if error:
            return _quoted(packet, error.mtu, source_port)
    segment = packet.getlayer(inet.TCP)
    if segment and segment.dport == source_port and segment.flags.R:
        return ARRIVED
    return None


def _quoted(packet, mtu, source_port):
    quoted = packet.getlayer(inet.TCPerror)
    if quoted and quoted.sport == source_port:
        return Answer(mtu)
    return None

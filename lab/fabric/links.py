# SPDX-License-Identifier: Apache-2.0
"""Cables of the fabric, fit for native XDP on a veth pair."""

import socket

from lab import namespaces
from lab import paths
from lab import processes

ROUTER = 'router'
UPLINK = 'eth0'
DECAPSULATE = paths.CHECKOUT / 'datapath' / 'build' / 'octavia-xdp-member'

CLIENT_MTU = 1500
# Room for the outer header around a client's full packet.
FABRIC_MTU = 1600


def connect(lab, host, mtu):
    """Cable a host's eth0 to the router's interface of the host's name."""
    cable(lab, (host, UPLINK), (ROUTER, host), mtu)


def cable(lab, end, other_end, mtu):
    """Join two hosts by a veth pair; an end is (host, interface name).

    Checksums must be in the packets: a veth pair otherwise leaves them out,
    and neither a packet that has passed native XDP nor what Open vSwitch
    reads in user space shows it.
    """
    namespaces.veth(lab, end, other_end)
    for host, interface in (end, other_end):
        set_mtu(lab, host, interface, mtu)
        processes.run(lab, host, ['ethtool', '-K', interface, 'tx', 'off',
                                  'tso', 'off', 'gso', 'off'])


def receive_at_once(lab, host, interface):
    """Let this end of a cable receive what XDP at the other end sends back.

    A veth device takes such packets only when it polls (NAPI). Switching on
    GRO makes it poll, but Linux 6.18 still wakes it up only if it has an XDP
    program itself: packets would wait until some other one comes along. The
    members' program, which takes nothing but packets for VIPs, lets
    everything pass here, where it is given none.
    """
    processes.run(lab, host, [DECAPSULATE, 'setup', '--any-source', '--mss',
                              'off', interface])


def set_mtu(lab, host, interface, mtu):
    """Set an interface's MTU."""
    with namespaces.link(lab, host) as netlink:
        netlink.link('set', mtu=mtu,
                     index=namespaces.index(netlink, interface))


def default_route(lab, host, *gateways):
    """Send everything to the router in packets that fit the client's link."""
    with namespaces.link(lab, host) as netlink:
        for gateway in gateways:
            family = socket.AF_INET6 if ':' in gateway else socket.AF_INET
            netlink.route('replace', dst='default', family=family,
                          gateway=gateway, metrics={'mtu': CLIENT_MTU})


def open_paths(lab, host):
    """Accept packets on any path: answers do not come back as they went."""
    namespaces.sysctl(
        lab, host, net__ipv4__conf__all__rp_filter=0,
        net__ipv4__conf__default__rp_filter=0)

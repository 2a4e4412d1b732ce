# SPDX-License-Identifier: Apache-2.0
"""Cables of the fabric: veth pairs that are set up for native XDP."""

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
    """Cable a host's eth0 to the router's interface named like the host."""
    cable(lab, (host, UPLINK), (ROUTER, host), mtu)


def cable(lab, end, other_end, mtu):
    """Connect two hosts by a veth pair; an end is (host, interface name).

    Switch off checksum offload: with it packets have no valid checksum, which
    neither native XDP nor Open vSwitch in user space can know.
    """
    namespaces.veth(lab, end, other_end)
    for host, interface in (end, other_end):
        set_mtu(lab, host, interface, mtu)
        processes.run(lab, host, ['ethtool', '-K', interface, 'tx', 'off',
                                  'tso', 'off', 'gso', 'off'])


def receive_at_once(lab, host, interface):
    """Let this end of a cable receive packets that XDP at the other end sends.

    A veth device receives such packets only when it polls (NAPI). Switching
    on GRO makes it poll, but Linux 6.18 wakes it up only if it has an XDP
    program itself: packets would wait for some later one. The members'
    program processes packets for VIPs only: without VIPs it passes all.
    """
    processes.run(lab, host, [DECAPSULATE, 'setup', '--any-source', '--mss',
                              'off', interface])


def set_mtu(lab, host, interface, mtu):
    """Set an interface's MTU."""
    with namespaces.link(lab, host) as netlink:
        netlink.link('set', mtu=mtu,
                     index=namespaces.index(netlink, interface))


def default_route(lab, host, *gateways):
    """Route all packets to the router, with the MTU of the client's link."""
    with namespaces.link(lab, host) as netlink:
        for gateway in gateways:
            family = socket.AF_INET6 if ':' in gateway else socket.AF_INET
            netlink.route('replace', dst='default', family=family,
                          gateway=gateway, metrics={'mtu': CLIENT_MTU})


def open_paths(lab, host):
    """Switch off reverse-path filters: answers may take another path."""
    namespaces.sysctl(
        lab, host, net__ipv4__conf__all__rp_filter=0,
        net__ipv4__conf__default__rp_filter=0)

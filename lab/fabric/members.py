# SPDX-License-Identifier: Apache-2.0
"""Members: unmodified nginx behind a decapsulating XDP program."""

import functools
import sys

from lab import namespaces
from lab import parallel
from lab import paths
from lab import processes
from lab.fabric import links
from lab.fabric import nginx
from lab.fabric import router

HTTP_PORTS = (80, 8080)
UDP_PORT = 5353


def address(member, version=4):
    """Return the member's own address."""
    return paths.member_address(paths.number(member), version)


def create(lab, member, hands_on=False, udp=True, vips=(), prepared=True):
    """Create the member; afterwards it answers on its own address.

    :param hands_on: it forwards packets of unknown TCP connections to the
        member that they name (second chance).
    :param prepared: False for a host without a decapsulating program, which
        can be reached by NAT only.
    :param vips: VIPs that it serves from the beginning.
    :param udp: with a UDP server in addition to nginx.
    """
    namespaces.create(lab, member)
    links.open_paths(lab, member)
    # The VIP on loopback must not be announced to the neighbours.
    namespaces.sysctl(lab, member, net__ipv4__conf__all__arp_ignore=1,
                      net__ipv4__conf__all__arp_announce=2)
    links.connect(lab, member, links.FABRIC_MTU)
    namespaces.join_bridge(lab, links.ROUTER, router.MEMBERS, member)
    own = address(member)
    namespaces.address(lab, member, links.UPLINK,
                       f'{own}/{paths.MEMBER_NETWORK.prefixlen}')
    namespaces.address(
        lab, member, links.UPLINK,
        f'{address(member, 6)}/{paths.MEMBER_NETWORK_V6.prefixlen}')
    links.default_route(lab, member, paths.MEMBER_GATEWAY,
                        paths.MEMBER_GATEWAY_V6)
    lab.state.put('addresses', member, {'uplink': own})
    if prepared:
        lab.state.put('members', member, {
            'vips': [*vips], 'hands_on': hands_on})
        _set_up(lab, member)
    _start(lab, member, udp)


def add_vip(lab, vip, members):
    """Let members take packets to a VIP."""
    def change(options):
        options['vips'] = sorted({*options['vips'], str(vip)})
    _change(lab, members, change)


def remove_vip(lab, vip, members, later=False):
    """Undo add_vip(); `later`: apply it with the next change, to save time."""
    def change(options):
        options['vips'] = sorted({*options['vips']} - {str(vip)})
    _change(lab, members, change, later)


def http_name(member):
    """Return the name of a member's nginx in the lab."""
    return nginx.name(member)


def udp_name(member):
    """Return the name of a member's UDP server in the lab."""
    return f'{member}-udp-echo'


def files(lab, member):
    """Return the directory whose files nginx serves."""
    return nginx.files(lab, member)


def _change(lab, members, change, later=False):
    def change_one(member):
        options = lab.state.section('members')[member]
        change(options)
        lab.state.put('members', member, options)
        if not later:
            _set_up(lab, member)
    parallel.together(*(functools.partial(change_one, member)
                        for member in members))


def _set_up(lab, member):
    options = lab.state.section('members')[member]
    words = [links.DECAPSULATE, 'setup']
    for network in (paths.UPLINK_NETWORK, paths.UPLINK_NETWORK_V6):
        words += ['--node', str(network)]
    if options.get('hands_on'):
        for network in (paths.MEMBER_NETWORK, paths.MEMBER_NETWORK_V6):
            words += ['--member', str(network)]
    for vip in options['vips']:
        words += ['--vip', vip]
    processes.run(lab, member, [*words, links.UPLINK])


def _start(lab, member, udp):
    nginx.start(lab, member, HTTP_PORTS, lambda: _answers(lab, member))
    if not udp:
        return
    processes.start(
        lab, member, udp_name(member),
        [sys.executable, '-m', 'lab.fabric.udp_echo', str(UDP_PORT), member],
        cwd=paths.CHECKOUT)


def _answers(lab, member):
    done = processes.run(
        lab, member, ['curl', '-s', '-m', '2', f'http://{address(member)}/'],
        check=False)
    return done.stdout == f'{member}\n'

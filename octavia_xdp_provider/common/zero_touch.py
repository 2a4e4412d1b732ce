# SPDX-License-Identifier: Apache-2.0
"""What cannot be with members that are reached through their hypervisors.

With ``zero_touch`` required it is refused when the API is called; with
preferred such members are reached at their addresses.
"""

import ipaddress

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import spec


def check(doc: spec.Document) -> None:
    """:raises Refused: names the option."""
    if flavor.value(doc['flavor'], 'zero_touch') != 'required':
        return
    for name, problem in ((
            'additional_vips', load_balancer_problem(doc)), *(
            found for pool in doc['pools'].values()
            for found in _of_pool(doc, pool))):
        if problem:
            raise errors.Refused(name, *problem)


def load_balancer_problem(doc: spec.Document) -> errors.Problem | None:
    """What a load balancer has that keeps all its members from it."""
    if len(spec.vips(doc)) > 1:
        return ('a hypervisor knows the one VIP of a member, and the load '
                'balancer has several', 'make a load balancer for each VIP')
    return None


def member_problem(doc: spec.Document, pool: spec.Pool, member: spec.Member
                   ) -> tuple[str, errors.Problem] | None:
    """What keeps one member from it, after the name of the option."""
    vip = ipaddress.ip_address(doc['vip_address'])
    address = ipaddress.ip_address(member['address'])
    if address.version != vip.version:
        return 'address', (
            f'{address} and the VIP {vip} are not of one IP version, which '
            'a hypervisor does not translate',
            f'use an IPv{vip.version} address of the server')
    monitor = pool['healthmonitor']
    if not monitor:
        return None
    if monitor['type'] == 'PING':
        return None
    port = member['monitor_port']
    if member['monitor_address'] in (None, '', member['address']) and (
            port not in (None, 0, member['protocol_port'])):
        return 'monitor_port', (
            f'port {port} of the VM is behind its hypervisor, which lets what '
            'is for the listener pass', 'leave it out')
    return None


def _of_pool(doc: spec.Document, pool: spec.Pool
             ) -> list[tuple[str, errors.Problem]]:
    found = (member_problem(doc, pool, member)
             for member in pool['members'].values())
    return [one for one in found if one]

# SPDX-License-Identifier: Apache-2.0
"""Restrictions on members that are reached through their hypervisors.

With ``zero_touch`` required the API refuses members that violate them; with
preferred it accepts them, and they are reached at their addresses.
"""

import ipaddress

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.contracts import tiers


def check_proxied(doc: spec.Document) -> None:
    """Refuse listeners that proxy nodes serve in a cloud in which these do not
    send to VMs through their hypervisors ([proxy] token_networks).

    :raises Refused: names the option for which a listener needs proxy nodes.
    """
    if flavor.value(doc['flavor'], 'zero_touch') != 'required':
        return
    for listener in doc['listeners'].values():
        cause = tiers.cause(doc, listener)
        # Octavia allows no pool for the metrics of PROMETHEUS.
        if cause and listener['protocol'] != 'PROMETHEUS':
            name, value = cause
            raise errors.Refused(
                name, f'{value} needs a proxy node, and proxy nodes cannot '
                'reach members through their hypervisors, as the load '
                'balancer\'s flavor requires (zero_touch)',
                'use a load balancer whose flavor does not require that, and '
                'members that are reached at their addresses')


def check(doc: spec.Document) -> None:
    """:raises Refused: names the option."""
    if flavor.value(doc['flavor'], 'zero_touch') != 'required':
        return
    for pool in doc['pools'].values():
        for name, problem in _pool_problems(doc, pool):
            raise errors.Refused(name, *problem)


def vip_versions(doc: spec.Document) -> list[int]:
    """Return the IP versions of the VIPs, sorted, each once."""
    return sorted({ipaddress.ip_address(vip).version
                   for vip in spec.vips(doc)})


def member_problem(doc: spec.Document, pool: spec.Pool, member: spec.Member
                   ) -> tuple[str, errors.Problem] | None:
    """Return (option, problem) if a member cannot be reached through its
    hypervisor, or None."""
    address = ipaddress.ip_address(member['address'])
    versions = vip_versions(doc)
    if address.version not in versions:
        return 'address', (
            f'{address} and the VIP {spec.vips(doc)[0]} are not of one IP '
            'version, which a hypervisor does not translate',
            f'use an IPv{versions[0]} address of the server')
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


def _pool_problems(doc: spec.Document, pool: spec.Pool
                   ) -> list[tuple[str, errors.Problem]]:
    problems = (member_problem(doc, pool, member)
                for member in pool['members'].values())
    return [problem for problem in problems if problem]

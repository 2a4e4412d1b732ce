# SPDX-License-Identifier: Apache-2.0
"""Derives tunnel ends from the hypervisors' reports, and validates them."""

from collections.abc import Iterable
import dataclasses
import ipaddress
from typing import Any

from octavia_xdp_provider.api import tunnels
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.controller.store import hypervisors

_HEADER = {4: 20, 6: 40}


@dataclasses.dataclass(frozen=True)
class End:
    """The end of tunnels to a hypervisor.

    ``address``: of the hypervisor, or the first of its SIDs. ``bits``: length
    of a key. ``mtu``: largest inner packet in bytes. ``entries_max``: None if
    unlimited.
    """

    encapsulation: str
    address: str
    bits: int
    mtu: int
    entries_max: int | None = None


class Shared(str):
    """Why an end that several hypervisors report is not used.

    One of the reports is false and must not affect the other hypervisor.
    """


Ends = dict[str, End | str]


def of_all(hosts: Iterable[hypervisors.Hypervisor],
           policy: address_policy.AddressPolicy,
           networks: Iterable[Any]) -> Ends:
    """Return host → End, or a text that tells why there is none.

    :param networks: networks in which ends may be.
    """
    allowed = list(networks)
    ends: Ends = {host.host: _of(host, policy, allowed) for host in hosts}
    by_address: dict[tuple[str, str], list[str]] = {}
    for host, end in ends.items():
        if isinstance(end, End):
            by_address.setdefault((end.encapsulation, end.address),
                                  []).append(host)
    for (_, address), names in by_address.items():
        # It is not known whose report is false.
        for name in names if len(names) > 1 else ():
            ends[name] = Shared(
                f'{" and ".join(sorted(names))} report the same address '
                f'{address}')
    return ends


def _of(host: hypervisors.Hypervisor, policy: address_policy.AddressPolicy,
        networks: list[Any]) -> End | str:
    if not host.in_service:
        return f'hypervisor {host.host} is disabled'
    state = host.state
    if not state:
        return f'the agent of hypervisor {host.host} has not reported yet'
    if int(state.get('document_version') or 0) < host_spec.VERSION:
        return (f'the agent of hypervisor {host.host} does not support '
                f'documents of version {host_spec.VERSION}: upgrade it')
    reported = []
    if state.get('srv6'):
        prefix = ipaddress.ip_network(state['srv6'])
        if prefix.version != 6 or prefix.prefixlen != 96:
            return (f'hypervisor {host.host} reports SIDs in {prefix}, which '
                    'is no IPv6 network of 96 bits')
        reported.append(('srv6', str(prefix.network_address)))
    reported += [('geneve', address) for address in state.get('geneve') or ()]
    ends = [_at(host, *end, policy, networks) for end in reported]
    # Hypervisors also report addresses of IP versions and encapsulations that
    # the operator does not use.
    return next((end for end in ends if isinstance(end, End)),
                ends[0] if ends else
                f'hypervisor {host.host} reports no address for Geneve and no '
                'network of SIDs')


def _at(host: hypervisors.Hypervisor, encapsulation: str, text: str,
        policy: address_policy.AddressPolicy, networks: list[Any]
        ) -> End | str:
    state = host.state
    address = ipaddress.ip_address(text)
    if not any(address in network for network in networks):
        return (f'hypervisor {host.host} reports {address}, which is outside '
                'of [zero_touch] host_networks')
    problem = policy.member_problem(str(address))
    if problem:
        return (f'hypervisor {host.host} reports an address that nodes would '
                f'refuse: {problem[0]} ({problem[2]})')
    overhead = _HEADER[address.version] + enumerations.SHIMS[
        enumerations.Encapsulation[encapsulation.upper()]]
    mtu = int(state.get('mtu') or 1500) - overhead
    if mtu < fields.INNER_MTU_MIN:
        return (f'hypervisor {host.host} has an MTU of {state.get("mtu")}, '
                f'which leaves {mtu} bytes, less than '
                f'{fields.INNER_MTU_MIN}')
    return End(encapsulation, str(address), tunnels.KEYS[encapsulation],
               min(mtu, 65535), state.get('entries_max'))

# SPDX-License-Identifier: Apache-2.0
"""Rules for members' tunnels, which follow from nodes and datapath."""

import ipaddress

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec

# Bits of a key.
KEYS = {'geneve': 24, 'srv6': 32}
# Additional bytes of an outer header that names a second member, by the outer
# IP version.
ALTERNATIVE = {4: 12, 6: 24}
# Encapsulations that can name a second member.
WITH_ALTERNATIVE = ('gue', 'geneve', 'srv6')


def alternative_length(address: str) -> int:
    """Return the bytes that an alternative adds to a tunnel's header."""
    return ALTERNATIVE[ipaddress.ip_address(address).version]


def check_end(vips: list[address_policy.Address],
              member: spec.Member) -> None:
    """Check the tunnel of one member.

    :raises Refused: names the field.
    """
    tunnel = member['tunnel']
    end = ipaddress.ip_address(tunnel['address'])
    encapsulation = tunnel['encapsulation']
    if end in vips:
        raise _refused(member, 'address', f'{end} is the VIP itself',
                       'use the address of the server\'s host')
    if encapsulation == 'srv6' and end.version != 6:
        raise _refused(member, 'address', f'{end} is no IPv6 address, and '
                       'the tunnel leads to an SRv6 SID',
                       'use the SID, or another encapsulation')
    if tunnel.get('takes_alternative') and (
            encapsulation not in WITH_ALTERNATIVE):
        raise _refused(member, 'takes_alternative', f'{encapsulation} names '
                       'no second member', 'leave it out, or use '
                       + ' or '.join(WITH_ALTERNATIVE))
    for key in _keys(tunnel):
        if encapsulation not in KEYS:
            raise _refused(member, 'key', f'{encapsulation} carries no key',
                           f'leave it out, or use {" or ".join(KEYS)}')
        if key >> KEYS[encapsulation]:
            raise _refused(
                member, 'key', f'{key} is beyond the {KEYS[encapsulation]} '
                f'bits of {encapsulation}',
                f'use at most {(1 << KEYS[encapsulation]) - 1}')
        if encapsulation == 'srv6' and int(end) & 0xffffffff:
            raise _refused(
                member, 'address', f'the last 32 bits of {end}, where the '
                'key goes, are not 0', 'use the prefix of 96 bits')


def check(doc: spec.Document, listener_id: str, vip: str, pool: spec.Pool
          ) -> None:
    """Check that a listener's tunnels to its members can be told apart.

    :param vip: destination of the packets, in canonical spelling.
    :raises Refused: the end of a tunnel could not tell which member a packet
        is for.
    """
    ends: dict[tuple[str, str, int | None, int], str] = {}
    for member in pool['members'].values():
        if 'tunnel' not in member:
            continue
        tunnel = member['tunnel']
        key = spec.tunnel_key(doc, tunnel, listener_id, vip)
        if key is None and spec.is_keyed(member):
            port = doc['listeners'][listener_id]['protocol_port']
            raise _refused(
                member, 'keys', f'there is none of the listener on port '
                f'{port} of {vip}, nor a key of all', 'give it')
        # Without keys the servers of a host must differ in their ports.
        port = 0 if key else member['protocol_port']
        end = (str(ipaddress.ip_address(tunnel['address'])),
               tunnel['encapsulation'], key, port)
        other = ends.setdefault(end, member['address'])
        if other != member['address']:
            raise _refused(
                member, 'address', f'packets to it and to {other} would be '
                f'the same: {end[1]} to {end[0]}'
                + (f' with key {key}' if key else ''),
                'give each member a key of its own')


def _keys(tunnel: spec.Tunnel) -> list[int]:
    return [*filter(None, [tunnel.get('key')]),
            *tunnel.get('keys', {}).values(),
            *(key for keys in tunnel.get('additional_keys', {}).values()
              for key in keys.values())]


def _refused(member: spec.Member, field: str, why: str, instead: str
             ) -> errors.Refused:
    return errors.Refused(f'tunnel.{field}',
                          f'member {member["address"]}: {why}', instead)

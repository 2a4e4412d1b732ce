# SPDX-License-Identifier: Apache-2.0
"""The addresses that LB nodes reach proxy nodes at.

The operator registers them. What a node reports about itself never counts.
"""

from collections.abc import Iterable
import ipaddress
import json
from typing import Any

from sqlalchemy import orm

from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.controller.store import rows


def checked(session: orm.Session, node: Any, addresses: Iterable[str]
            ) -> str | None:
    """Check the addresses of a node, and return them for the database.

    :param node: models.Node, which may not be stored yet.
    :raises Refused: see Nodes.set_proxy_addresses.
    """
    texts = list(addresses)
    if node.role != rows.PROXY:
        if texts:
            raise _refused(f'{node.host} is an LB node, and only proxy nodes '
                           'have them', 'leave them out, or use role proxy')
        return None
    parsed = list(map(_parsed, texts))
    if not parsed:
        raise _refused(f'{node.host} has none, and a proxy node needs an '
                       'address that LB nodes reach it at',
                       'give an IPv4 address, an IPv6 address or both')
    for number, address in enumerate(parsed):
        if address in parsed[:number]:
            raise _refused(f'{address} is given twice', 'give it once')
    for version in 4, 6:
        if sum(address.version == version for address in parsed) > 1:
            raise _refused(f'there are two IPv{version} addresses',
                           'give at most one of each family')
    for address in parsed:
        _check_free(session, node.host, address)
    return json.dumps(list(map(str, parsed)))


def _refused(why: str, instead: str) -> errors.Refused:
    return errors.Refused('proxy_addresses', why, instead)


def _parsed(text: str) -> address_policy.Address:
    problem = fields.address_problem(text)
    if problem:
        raise _refused(*problem)
    address = ipaddress.ip_address(text)
    if not address_policy.is_of_host(address) or address.is_loopback:
        raise _refused(f'{address} is no address of a host',
                       'use an address that LB nodes reach the node at')
    return address


def _check_free(session: orm.Session, host: str,
                address: address_policy.Address) -> None:
    """:raises Refused: another node or a load balancer has the address."""
    text = str(address)
    for other in session.query(models.Node).filter(models.Node.host != host):
        node = rows.node(other)
        if text in {*node.proxy_addresses, *(
                node.state.get('addresses') or ())}:
            raise _refused(f'{text} is an address of node {other.host}',
                           'use one that only this node has')
        for pool in rows.nat_pools(other):
            if address in ipaddress.ip_network(pool):
                raise _refused(f'{text} lies in {pool}, a pool for NAT of '
                               f'node {other.host}',
                               'use one that only this node has')
    for table, role in ((models.Vip, 'the VIP'),
                        (models.MemberAddress, 'a member')):
        holder = session.query(table.load_balancer_id).filter_by(
            address=text).first()
        if holder:
            raise _refused(f'{text} is {role} of load balancer {holder[0]}',
                           'use one that only this node has')

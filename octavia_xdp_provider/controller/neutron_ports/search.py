# SPDX-License-Identifier: Apache-2.0
"""Looks up members' ports in as few calls of Neutron as possible.

A hundred members of a subnet take one call. Their networks, subnets, gateways
and security groups take one call of each kind per hundred, and so do RBAC
policies of networks that the load balancers' projects do not own.
"""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
import ipaddress
from typing import Any

from octavia_xdp_provider.controller.neutron_ports import access
from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import obstacles
from octavia_xdp_provider.controller.neutron_ports import security

# Prefixes of the device_owner of router ports, for any kind of router.
_OF_ROUTERS = ('network:router', 'network:ha_router')

_Matches = dict[findings.Wanted, list[tuple[client.Row, str]]]


def find(neutron: client.Neutron, wanted: Iterable[findings.Wanted]
         ) -> dict[findings.Wanted, findings.Finding]:
    """Return the Finding of each member.

    :raises NeutronUnavailable: Neutron did not answer.
    """
    matches = _matches(neutron, wanted)
    context = _Context(neutron, matches)
    return {member: _finding(member, rows, context)
            for member, rows in matches.items()}


def _matches(neutron: client.Neutron, wanted: Iterable[findings.Wanted]
             ) -> _Matches:
    """Return member → each (port, subnet) that has its address."""
    members: dict[tuple[str, str], set[findings.Wanted]] = (
        collections.defaultdict(set))
    matches: _Matches = {}
    for member in wanted:
        matches[member] = []
        # Without a subnet, search the ports of the project.
        name, value = (('subnet_id', member.subnet_id) if member.subnet_id
                       else ('project_id', member.project_id))
        members[name, value].add(member)
    for (name, value), group in members.items():
        by_address = collections.defaultdict(list)
        for member in group:
            by_address[_normal(member.address)].append(member)
        for row in neutron.ports(by_address, **{name: value}):
            for fixed in row['fixed_ips']:
                if name == 'subnet_id' and fixed['subnet_id'] != value:
                    continue
                for member in by_address.get(_normal(fixed['ip_address']), ()):
                    matches[member].append((row, fixed['subnet_id']))
    return matches


class _Context:
    """The objects that ports refer to, by id."""

    def __init__(self, neutron: client.Neutron, matches: _Matches) -> None:
        rows = [ports[0] for ports in matches.values() if len(ports) == 1]
        self.subnets = _by_id(neutron.subnets((
            *(fixed['subnet_id'] for row, _subnet in rows
              for fixed in row['fixed_ips']),
            *(member.subnet_id for member in matches if member.subnet_id))))
        self.networks = _by_id(neutron.networks((
            *(row['network_id'] for row, _subnet in rows),
            *(row['network_id'] for row in self.subnets.values()))))
        self._access = access.Access(self.networks.values(), neutron.shares(
            self._not_owned(matches)))
        self.groups = _by_id(neutron.security_groups(
            group for row, _subnet in rows
            for group in row.get('security_groups') or ()))
        # (subnet, address) → port.
        self._gateways = {
            (fixed['subnet_id'], _normal(fixed['ip_address'])): row
            for row in neutron.gateways(self.subnets.values())
            for fixed in row['fixed_ips']}
        self._routers = _by_id(neutron.routers(
            key for row in self._gateways.values()
            if (key := _router_id(row))))

    def _not_owned(self, members: Iterable[findings.Wanted]) -> set[str]:
        """Return the networks of subnets that other projects' members name.
        """
        return {network for member in members
                if (network := self._network_of(member))
                and self.networks.get(network, {}).get('project_id')
                != member.project_id}

    def _network_of(self, member: findings.Wanted) -> str | None:
        return self.subnets.get(member.subnet_id or '', {}).get('network_id')

    def is_foreign(self, member: findings.Wanted) -> bool:
        """Return whether a member names a subnet that its project may not
        use."""
        return member.subnet_id in self.subnets and not self._access.has(
            member.project_id, self._network_of(member))

    def network(self, key: str) -> client.Row:
        return _visible(self.networks, key, 'network')

    def gateway_mac(self, subnet_id: str) -> str | None:
        row = self._gateway(subnet_id)
        if row is None or self._gateway_problem(row):
            return None
        mac: str = row['mac_address'].lower()
        return mac

    def no_gateway(self, subnet_id: str) -> str:
        """Return why there is no gateway_mac."""
        address = self.subnet(subnet_id).get('gateway_ip')
        if not address:
            return 'the subnet has no gateway'
        row = self._gateway(subnet_id)
        return (self._gateway_problem(row) if row is not None else
                f'no router\'s port has the gateway address {address}')

    def _gateway(self, subnet_id: str) -> client.Row | None:
        address = self.subnets.get(subnet_id, {}).get('gateway_ip')
        return self._gateways.get((subnet_id, _normal(address))) if (
            address) else None

    def _gateway_problem(self, row: client.Row) -> str:
        if obstacles.switched_off(row):
            return f'the port {row["id"]} of its gateway is disabled'
        router = _router_id(row)
        if router and obstacles.switched_off(
                _visible(self._routers, router, 'router')):
            return f'the router {router} is disabled'
        return ''

    def subnet(self, key: str) -> client.Row:
        return _visible(self.subnets, key, 'subnet')

    def group(self, key: str) -> client.Row:
        return _visible(self.groups, key, 'security group')


def _finding(member: findings.Wanted, rows: list[tuple[client.Row, str]],
             context: _Context) -> findings.Finding:
    # First, so that no other reason reveals whether a port has the address.
    if context.is_foreign(member) and not any(
            row['project_id'] == member.project_id for row, _subnet in rows):
        return findings.Finding(
            None, findings.Obstacle.FOREIGN,
            f'the network of subnet {member.subnet_id} is neither project '
            f'{member.project_id}\'s nor shared with it, according to the '
            'RBAC policies that the user of [neutron] may read')
    if not rows:
        where = (f'subnet {member.subnet_id}' if member.subnet_id
                 else f'project {member.project_id}')
        return findings.Finding(
            None, findings.Obstacle.NO_PORT,
            f'no port in {where} has {member.address} among its fixed '
            'addresses: allowed address pairs and floating IPs do not '
            'identify a VM')
    if len(rows) > 1:
        return findings.Finding(
            None, findings.Obstacle.AMBIGUOUS,
            f'{len(rows)} ports of project {member.project_id} have the '
            f'address {member.address}: name the member\'s subnet_id')
    row, subnet_id = rows[0]
    obstacle = obstacles.of_states(row,
                                   context.networks.get(row['network_id']))
    if obstacle is not None:
        return findings.Finding(None, *obstacle)
    try:
        port = _port(row, member.address, subnet_id, context)
    except _NotVisible as error:
        return findings.Finding(None, findings.Obstacle.NOT_VISIBLE,
                                str(error))
    obstacle = obstacles.of_port(row)
    if obstacle is None and port.gateway_mac is None:
        obstacle = (findings.Obstacle.NO_GATEWAY,
                    context.no_gateway(subnet_id))
    if obstacle is None:
        return findings.Finding(port)
    return findings.Finding(port, *obstacle)


def _port(row: client.Row, address: str, subnet_id: str,
          context: _Context) -> findings.Port:
    # Default to closed if Neutron omits the field.
    secured = row.get('port_security_enabled') is not False
    groups = sorted(row.get('security_groups') or ()) if secured else []
    context.subnet(subnet_id)
    return findings.Port(
        id=row['id'], project_id=row['project_id'],
        host=row.get('binding:host_id') or None,
        migrating_to=(row.get('binding:profile') or {}).get('migrating_to'),
        status=row.get('status') or '',
        vif_type=row.get('binding:vif_type') or '',
        vnic_type=row.get('binding:vnic_type') or '',
        mac=row['mac_address'].lower(), address=_normal(address),
        subnet_id=subnet_id, network_id=row['network_id'],
        mtu=int(context.network(row['network_id'])['mtu']),
        gateway_mac=context.gateway_mac(subnet_id),
        security_enabled=secured, security_group_ids=tuple(groups),
        rules=security.rules(context.group(key) for key in groups),
        revision=int(row.get('revision_number') or 0),
        others=_others(row, address, context))


def _others(row: client.Row, address: str, context: _Context
            ) -> tuple[findings.Fixed, ...]:
    return tuple(sorted((
        findings.Fixed(_normal(fixed['ip_address']),
                       context.gateway_mac(fixed['subnet_id']))
        for fixed in row['fixed_ips']
        if _normal(fixed['ip_address']) != _normal(address)),
        key=lambda fixed: fixed.address))


def _router_id(gateway: client.Row) -> str | None:
    """Return None if another device than a router has the gateway's address.
    """
    owner = gateway.get('device_owner') or ''
    return gateway.get('device_id') or None if (
        owner.startswith(_OF_ROUTERS)) else None


def _by_id(rows: Iterable[client.Row]) -> dict[str, client.Row]:
    return {row['id']: row for row in rows}


class _NotVisible(Exception):
    """A port refers to something that Neutron does not show."""


def _visible(rows: Mapping[str, Any], key: str, what: str) -> client.Row:
    if key not in rows:
        raise _NotVisible(
            f'Neutron does not show the port\'s {what} {key} to the user of '
            '[neutron], who may not read it, or it has just been deleted')
    row: client.Row = rows[key]
    return row


def _normal(address: str) -> str:
    return str(ipaddress.ip_address(address))

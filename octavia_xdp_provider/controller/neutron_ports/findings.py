# SPDX-License-Identifier: Apache-2.0
"""Members to look up in Neutron, and their ports.

Addresses are texts in the form of Python's ipaddress. MAC addresses are
lower-case with colons. Ids are Neutron's.
"""

import dataclasses
import enum


class Obstacle(enum.Enum):
    """Why no program at a hypervisor's tap can serve a member.

    NOT_VISIBLE: the user of [neutron] may not read an object of the port.
    FOREIGN: the load balancer's project may not use the network.
    DISABLED: the port or its network is administratively down.
    """

    NO_PORT = 'no-port'
    FOREIGN = 'foreign'
    DISABLED = 'disabled'
    NOT_VISIBLE = 'not-visible'
    AMBIGUOUS = 'ambiguous'
    UNBOUND = 'unbound'
    BINDING_FAILED = 'binding-failed'
    NOT_A_VM = 'not-a-vm'
    BARE_METAL = 'bare-metal'
    TRUNK_SUBPORT = 'trunk-subport'
    DIRECT = 'direct'
    OFFLOADED = 'offloaded'
    VHOST_USER = 'vhost-user'
    UNKNOWN_VIF = 'unknown-vif'
    NO_GATEWAY = 'no-gateway'


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A member to look up.

    :param project_id: project of its load balancer.
    :param subnet_id: None to search all of the project's ports.
    """

    project_id: str
    address: str
    subnet_id: str | None = None


@dataclasses.dataclass(frozen=True)
class Rule:
    """An ingress rule of a security group.

    :param ip_version: 4 or 6.
    :param protocol: IANA's number, or None for any.
    :param ports: first and last, or None for any. For ICMP: type and code,
        each None for any.
    :param remote_network: CIDR; None for any, or if a group is given.
    :param remote_group_id: security group whose ports' addresses are allowed.
    :param remote_address_group_id: address group that is allowed.
    """

    ip_version: int
    protocol: int | None
    ports: tuple[int | None, int | None] | None
    remote_network: str | None
    remote_group_id: str | None
    remote_address_group_id: str | None


@dataclasses.dataclass(frozen=True)
class Fixed:
    """An address of a port.

    :param gateway_mac: see Port; for the address's subnet.
    """

    address: str
    gateway_mac: str | None


@dataclasses.dataclass(frozen=True)
class Port:
    """A Neutron port that has a member's address.

    :param host: Nova's and Neutron's name of the hypervisor, or None if the
        port is not bound.
    :param migrating_to: the hypervisor to which it is being moved.
    :param status: ACTIVE if it is plugged in and up.
    :param mtu: maximum bytes of an IP packet on its network.
    :param gateway_mac: of the router port that has the subnet's gateway
        address; None without such a port, or if it or its router is disabled.
    :param security_group_ids: sorted; empty if security_enabled is False.
    :param rules: distinct rules of all its groups. Other traffic is dropped,
        unless security_enabled is False.
    :param revision: Neutron's revision number; larger means newer. It does
        not cover the security groups.
    :param others: its addresses other than ``address``, sorted.
    """

    id: str
    project_id: str
    host: str | None
    migrating_to: str | None
    status: str
    vif_type: str
    vnic_type: str
    mac: str
    address: str
    subnet_id: str
    network_id: str
    mtu: int
    gateway_mac: str | None
    security_enabled: bool
    security_group_ids: tuple[str, ...]
    rules: tuple[Rule, ...]
    revision: int
    others: tuple[Fixed, ...] = ()


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result for one member.

    :param port: None if there is none, there are several, or it cannot be
        read completely.
    :param obstacle: None if a program on ``port.host`` can serve the member.
    :param reason: a description of the obstacle.
    """

    port: Port | None
    obstacle: Obstacle | None = None
    reason: str = ''

# SPDX-License-Identifier: Apache-2.0
"""What is looked for, and what was found: the port of a member.

All addresses are texts, normalized as Python's ipaddress has them; MAC
addresses are lower-case with colons; ids are Neutron's.
"""

import dataclasses
import enum


class Obstacle(enum.Enum):
    """Why no program at a hypervisor's tap can serve a member.

    NOT_VISIBLE: the user of [neutron] may not read what the port refers to.
    FOREIGN: the load balancer's project may not use the network.
    DISABLED: somebody has switched the port or its network off.
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
    """A member, as Octavia has it.

    :param project_id: of its load balancer.
    :param subnet_id: None: its project's ports decide.
    """

    project_id: str
    address: str
    subnet_id: str | None = None


@dataclasses.dataclass(frozen=True)
class Rule:
    """An ingress rule of a security group: what it lets in.

    :param ip_version: 4 or 6.
    :param protocol: a number of IANA's, None: any.
    :param ports: first and last, None: any. Of ICMP: type and code, each
        None for any.
    :param remote_network: CIDR; None: any, or what the two others say.
    :param remote_group_id: addresses of ports in this security group.
    :param remote_address_group_id: addresses that this address group lists.
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

    :param gateway_mac: as Port has it, of the address's subnet.
    """

    address: str
    gateway_mac: str | None


@dataclasses.dataclass(frozen=True)
class Port:
    """A Neutron port that has a member's address.

    :param host: name of the hypervisor, as Nova and Neutron have it; None:
        the port is bound to none.
    :param migrating_to: the one to which it is being moved.
    :param status: ACTIVE: plugged in and up.
    :param mtu: bytes of an IP packet on its network.
    :param gateway_mac: of the router port that has the subnet's gateway
        address; None: no port has it, or it or its router is switched off.
    :param security_group_ids: sorted; empty where security_enabled is not.
    :param rules: of all its groups, without repetition; what none of them
        names is dropped. Where security_enabled is False nothing is.
    :param revision: Neutron's; a larger one is a newer state of the port,
        not of its groups.
    :param others: its addresses beside ``address``, sorted.
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
    """The answer for one member.

    :param port: None: there is none, there are several, or not all of it
        can be read.
    :param obstacle: None: a program on ``port.host`` can serve it.
    :param reason: the obstacle in words, with what it is about.
    """

    port: Port | None
    obstacle: Obstacle | None = None
    reason: str = ''

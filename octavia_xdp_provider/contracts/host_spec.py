# SPDX-License-Identifier: Apache-2.0
"""The wanted state of a hypervisor: documents of ports and of address sets.

A port document describes a Neutron port that has, or will have, a tap on the
hypervisor, with everything that the members on it need::

    {"version": 1, "id": "<Neutron port id>", "mac": "fa:16:3e:00:00:01",
     "mtu": 1442, "open": false,
     "rules": [{"ip_version": 4, "protocol": 6, "ports": [8080, 8080],
                "remote_network": "198.51.100.0/24", "address_set": null},
               {"ip_version": 4, "protocol": null, "ports": null,
                "remote_network": null, "address_set": "<group id>"}],
     "entries": [{"key": 4711, "load_balancer_id": "<id>",
                  "listener_id": "<id>", "member_id": "<id>",
                  "vip": "203.0.113.10", "vip_port": 80,
                  "address": "10.0.0.5", "port": 8080, "protocol": 6,
                  "gateway_mac": "fa:16:3e:00:00:ff"}]}

A rule that admits a Neutron security group or address group refers to an
address set::

    {"version": 1, "id": "<group id>", "networks": ["10.0.0.7/32"]}

Ids are Neutron's UUIDs, unique across both kinds. MAC addresses are
lower-case with colons; networks are in CIDR notation with no host bits set;
protocols are IANA's numbers. For the fields see the contract of the
hypervisor's programs (doc/source/contributor/host-forwarding.rst).

As with the documents of LB nodes (contracts/spec.py), a new field needs a new
``VERSION``; readers refuse a document whose version they do not know.
"""

import re
from typing import Annotated
from typing import cast
from typing import Literal
from typing import TypeAlias

import pydantic
from typing_extensions import NotRequired
from typing_extensions import TypedDict

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import shape

VERSION = 1

# Limits of the hypervisor's library (datapath/include/octavia_xdp_host.h).
RULES_MAX = 128
# Per port: listeners times members on it.
ENTRIES_MAX = 1024
# Per address set, and per list of the common configuration.
ADDRESSES_MAX = 4096
NETWORKS_MAX = 1024

TCP, UDP, SCTP = 6, 17, 132

_MAC = re.compile(r'[0-9a-f]{2}(:[0-9a-f]{2}){5}')


def mac_problem(value: str) -> errors.Problem | None:
    if not _MAC.fullmatch(value):
        return (f'{value!r} is no MAC address of six lower-case bytes with '
                'colons', 'write it as fa:16:3e:00:00:01')
    if int(value[:2], 16) & 1:
        return f'{value} is no address of one machine', 'use a unicast one'
    return None


def ports_problem(value: list[int]) -> errors.Problem | None:
    if value[0] > value[1]:
        return f'{value[0]} is greater than {value[1]}', 'give the least first'
    return None


Mac = Annotated[str, fields.refuse(mac_problem)]
Protocol = Literal[6, 17, 132]
Ports = Annotated[
    list[Annotated[int, pydantic.Field(ge=0, le=65535)]],
    pydantic.Field(min_length=2, max_length=2), fields.refuse(ports_problem)]
# Octavia's id of a load balancer, a listener or a member.
OctaviaId = Annotated[str, pydantic.Field(
    pattern=r'^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$')]


@shape.strict
class Rule(TypedDict):
    """Traffic that a port's security groups admit.

    ``protocol``: null for any. ``ports``: first and last port of the member;
    null for all. ``remote_network``: has the rule's IP version.
    ``address_set``: its id; a set that the hypervisor does not have admits
    nothing. At most one of ``remote_network`` and ``address_set`` is given;
    without either, every source is admitted.
    """

    ip_version: Literal[4, 6]
    protocol: Protocol | None
    ports: Ports | None
    remote_network: fields.Network | None
    address_set: fields.Uuid | None


@shape.strict
class Entry(TypedDict):
    """A listener at a member on the port.

    ``key``: identifies the entry in packets of LB nodes: the VNI of Geneve
    (24 bits) or the last 32 bits of a SID; unique on the hypervisor.
    ``address`` and ``port``: the member's own; ``vip``, ``vip_port``: the
    listener's, of the same IP version. ``gateway_mac``: source MAC address
    of the packets that the VM receives. ``judged_as``: only in entries of
    proxy nodes, whose ``vip`` is a token and whose ``listener_id`` is a
    pool's: the VIP that rules have to admit, in place of the proxies.
    """

    key: fields.TunnelKey
    load_balancer_id: OctaviaId
    listener_id: OctaviaId
    member_id: OctaviaId
    vip: fields.Address
    vip_port: fields.Port
    address: fields.Address
    port: fields.Port
    protocol: Protocol
    gateway_mac: Mac
    judged_as: NotRequired[fields.Address]


@shape.strict
class Port(TypedDict):
    """A Neutron port with members.

    ``mac``: the VM's. ``mtu``: largest packet in bytes that reaches the VM:
    it fits both the VM's network and the tunnel, and the MSS is derived from
    it. ``open``: port security is off, so all traffic is admitted.
    ``entries``: empty if the port is no longer, or not yet, in use.
    """

    version: int
    id: fields.Uuid
    mac: Mac
    mtu: fields.InnerMtu
    open: bool
    rules: Annotated[list[Rule], pydantic.Field(max_length=RULES_MAX)]
    entries: Annotated[list[Entry], pydantic.Field(max_length=ENTRIES_MAX)]


@shape.strict
class AddressSet(TypedDict):
    """The addresses of a security group's ports or of an address group."""

    version: int
    id: fields.Uuid
    networks: Annotated[list[fields.Network], pydantic.Field(
        max_length=ADDRESSES_MAX)]


@shape.strict
class Common(TypedDict):
    """Configuration that all hypervisors share.

    ``networks``: networks of the LB nodes, the sources of tunnelled packets
    and of probes. ``peers``: networks of the hypervisors, which forward
    packets of unknown connections to each other. ``proxies``: networks of the
    proxy nodes, which are sources of tunnelled packets; rules apply to them.
    Missing: none.
    """

    networks: Annotated[list[fields.Network], pydantic.Field(
        max_length=NETWORKS_MAX)]
    peers: Annotated[list[fields.Network], pydantic.Field(
        max_length=NETWORKS_MAX)]
    proxies: NotRequired[Annotated[list[fields.Network], pydantic.Field(
        max_length=NETWORKS_MAX)]]


PORT, ADDRESS_SET = 'port', 'address_set'
Kind: TypeAlias = Literal['port', 'address_set']

_SHAPES = {PORT: shape.Shape(Port), ADDRESS_SET: shape.Shape(AddressSet)}
_COMMON = shape.Shape(Common)


def check(kind: str, document: object) -> None:
    """Check a document that another process wrote.

    :raises Refused: the document is malformed, is not supported, or has a
        newer version.
    """
    if kind not in _SHAPES:
        raise errors.Refused('kind', f'{kind!r} is none that is known here',
                             f'use {" or ".join(_SHAPES)}')
    shape.check_version(document, VERSION)
    _SHAPES[kind].check(document)
    if kind == PORT:
        _check_port(cast(Port, document))


def check_common(common: object) -> None:
    """:raises Refused: the configuration is malformed."""
    _COMMON.check(common)


def _check_port(port: Port) -> None:
    for index, rule in enumerate(port['rules']):
        network = rule['remote_network']
        if network and rule['address_set']:
            raise errors.Refused(
                f'rules.{index}.address_set', 'the rule has a remote_network '
                'too', 'give one of them')
        if network and (':' in network) != (rule['ip_version'] == 6):
            raise errors.Refused(
                f'rules.{index}.remote_network', f'{network} is not of '
                f'IPv{rule["ip_version"]}', 'use a network of the rule\'s IP '
                'version')
    keys = set()
    for index, entry in enumerate(port['entries']):
        if (':' in entry['vip']) != (':' in entry['address']):
            raise errors.Refused(
                f'entries.{index}.vip', f'{entry["vip"]} and the member\'s '
                f'address {entry["address"]} are not of one IP version',
                'give the VIP of the member\'s IP version')
        if entry['protocol'] == SCTP and entry['vip_port'] != entry['port']:
            raise errors.Refused(
                f'entries.{index}.port', f'{entry["port"]} is not the '
                f'listener\'s, {entry["vip_port"]}, and ports of SCTP are '
                'not rewritten', 'use the listener\'s port')
        if entry['key'] in keys:
            raise errors.Refused(
                f'entries.{index}.key', f'{entry["key"]} is another entry\'s',
                'give each a key of its own')
        keys.add(entry['key'])

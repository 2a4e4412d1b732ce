# SPDX-License-Identifier: Apache-2.0
"""Which addresses the operator allows for VIPs and members."""

from collections.abc import Iterable
import dataclasses
import ipaddress

from octavia_xdp_provider.contracts import errors

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Multicast and above, which the datapath refuses.
_FIRST_RESERVED = ipaddress.IPv4Address('224.0.0.0')


# IPv6 prefixes that embed an IPv4 address. A translator or tunnel would take
# packets to an IPv4 address that was not checked against any list of networks.
_IPV4_INSIDE = tuple(
    (ipaddress.IPv6Network(text), why) for text, why in (
        ('::/96', 'IPv4-compatible, RFC 4291'),
        ('::ffff:0:0:0/96', 'IPv4-translated, RFC 2765'),
        ('64:ff9b::/96', 'NAT64, RFC 6052'),
        ('64:ff9b:1::/48', 'NAT64, RFC 8215'),
        ('2001::/32', 'Teredo, RFC 4380'),
        ('2002::/16', '6to4, RFC 3056')))
# ISATAP interface identifiers (RFC 5214), with either value of the bit that
# tells whether the IPv4 address is globally unique.
_ISATAP = 0x00005efe
_ISATAP_MASK = 0xfdffffff


@dataclasses.dataclass(frozen=True)
class AddressPolicy:
    """The operator's networks, and the addresses of the node that asks.

    :param vip_networks: ``[vip] allowed_networks``.
    :param denied_networks: ``[members] denied_networks``.
    :param own_addresses: texts; empty unless this is a node.
    :param member_networks: ``[members] allowed_networks``; None: all.
    :param vip_subnet_ids: ``[vip] subnet_ids``.
    :param vip_network_ids: ``[vip] network_ids``.
    :param vm_networks: ``[zero_touch] member_networks``: allowed in addition
        for members of load balancers that may reach them as VMs.
    :param vip_denied_networks: ``[vip] denied_networks``.
    :param has_tokens: whether proxy nodes reach members through hypervisors.
    """

    vip_networks: tuple[Network, ...]
    denied_networks: tuple[Network, ...]
    own_addresses: frozenset[str] = frozenset()
    member_networks: tuple[Network, ...] | None = None
    vip_subnet_ids: frozenset[str] = frozenset()
    vip_network_ids: frozenset[str] = frozenset()
    vm_networks: tuple[Network, ...] = ()
    vip_denied_networks: tuple[Network, ...] = ()
    has_tokens: bool = False

    def vip_problem(self, text: str) -> errors.Detailed | None:
        """Return why the operator does not allow a VIP, or None.

        :raises ValueError: the text is not an address.
        """
        address = ipaddress.ip_address(text)
        if problem := family_problem(address) or inside_problem(address):
            return *problem, ''
        if str(address) in self.own_addresses:
            return taken(address, 'it is an address of this LB node')
        for network in self.vip_denied_networks:
            if address in network:
                return taken(address, f'it lies in {network} of [vip] '
                                      'denied_networks')
        if any(address in network for network in self.vip_networks):
            return None
        return (f'{address} is outside the networks whose addresses the '
                'operator lets the LB nodes announce',
                'create the VIP on a subnet that the operator has for VIPs of '
                'this provider',
                f'[vip] allowed_networks: {_listed(self.vip_networks)}')

    @property
    def names_vip_subnets(self) -> bool:
        return bool(self.vip_subnet_ids or self.vip_network_ids)

    def vip_origin_problem(self, subnet_id: str | None,
                           network_id: str | None) -> errors.Detailed | None:
        """Return why a VIP cannot be on this subnet, or None.

        A tenant's own subnet may have any addresses, including those of the
        operator's networks.
        """
        if not self.names_vip_subnets:
            return None
        if (subnet_id in self.vip_subnet_ids
                or network_id in self.vip_network_ids):
            return None
        return (f'subnet {subnet_id} of network {network_id} is none of '
                'those that the operator has set apart for VIPs of this '
                'provider', 'create the VIP on one of these',
                '[vip] subnet_ids and network_ids: ' + ' '.join(
                    sorted(self.vip_subnet_ids | self.vip_network_ids)))

    def member_problem(self, text: str, is_vm: bool = False
                       ) -> errors.Detailed | None:
        """Return why the operator does not allow a member, or None.

        :param is_vm: whether the member may be behind a hypervisor. If not,
            LB nodes send to the address itself.
        :raises ValueError: the text is not an address.
        """
        address = ipaddress.ip_address(text)
        if problem := family_problem(address) or inside_problem(address):
            return *problem, ''
        if not is_of_host(address):
            return (f'{address} is no address of a host',
                    'use another address', '')
        if str(address) in self.own_addresses:
            return closed(address, 'it is an address of an LB node')
        for network in self.vip_networks:
            if address in network:
                return (f'{address} lies in a network of VIPs',
                        'use the address of a server', f'{network}')
        for network in self.denied_networks:
            if address in network:
                return closed(address, f'it lies in {network}, in which no '
                                       'member may be')
        if self.member_networks is None or any(
                address in network for network in (
                    *self.member_networks,
                    *(self.vm_networks if is_vm else ()))):
            return None
        return closed(address, '[members] allowed_networks: '
                      + _listed(self.member_networks) + self._of_vms(is_vm))

    def _of_vms(self, is_vm: bool) -> str:
        if not self.vm_networks:
            return ''
        return ('; [zero_touch] member_networks'
                + ('' if is_vm else ', which are not for it')
                + f': {_listed(self.vm_networks)}')

    def is_for_vms_alone(self, text: str) -> bool:
        """Return whether LB nodes must not send to an address directly.

        Without networks of VMs there is one list for all members, against
        which each was checked when it was added.
        """
        return bool(self.vm_networks and self.member_problem(text))


def closed(address: object, detail: str) -> errors.Detailed:
    """Return the problem of a member address that belongs to the operator or
    conflicts with another project; users cannot tell these cases apart."""
    return (f'{address} is none that this member may have',
            'use the address of a server in a network that the operator has '
            'for members, which for VMs may need a flavor with zero_touch; '
            'with encapsulation dscp, of one that is no member of another '
            'load balancer', detail)


def taken(address: object, detail: str) -> errors.Detailed:
    """Return the problem of a VIP address that the operator uses; users are
    not told for what."""
    return (f'{address} is none that a VIP may have',
            'use another address of the subnet, or let Neutron choose one',
            detail)


def _listed(networks: Iterable[Network]) -> str:
    return ', '.join(map(str, networks)) or 'none configured'


def family_problem(address: Address) -> errors.Problem | None:
    """Return what is wrong with a scoped or IPv4-mapped IPv6 address."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address.scope_id:
        return (f'{address} has a zone, which means nothing to LB nodes',
                'leave the zone out')
    if address.ipv4_mapped:
        # It would be treated as the IPv4 address that it maps.
        return (f'{address} is an IPv4 address inside an IPv6 one',
                f'use {address.ipv4_mapped}')
    return None


def inside_problem(address: Address) -> errors.Problem | None:
    """Return what is wrong with an IPv6 address that embeds an IPv4 one."""
    if not isinstance(address, ipaddress.IPv6Address) or not is_of_host(
            address) or address.is_loopback:
        return None
    for network, why in _IPV4_INSIDE:
        if address in network:
            return (f'{address} leads to an IPv4 address ({why})',
                    'use the IPv4 address itself, or an address that is IPv6 '
                    'all the way')
    if (int(address) >> 32) & _ISATAP_MASK == _ISATAP:
        return (f'{address} leads to an IPv4 address (ISATAP, RFC 5214)',
                'use the IPv4 address itself, or an address that is IPv6 '
                'all the way')
    return None


def is_of_host(address: Address) -> bool:
    """Return whether a single host can have the address."""
    if address.is_unspecified or address.is_multicast:
        return False
    return not (isinstance(address, ipaddress.IPv4Address)
                and address >= _FIRST_RESERVED)

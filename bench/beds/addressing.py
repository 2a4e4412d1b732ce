# SPDX-License-Identifier: Apache-2.0
"""Addresses of a declared bed, and the next hops of its routes."""

from collections.abc import Sequence
import ipaddress
import itertools

# Prefix length of each pair's network if a link consists of several pairs.
PAIR_LENGTH = {4: 30, 6: 126}


class Addresses:
    """Assigns addresses and refuses conflicting ones.

    :param parsed: document.Document of the bed.
    :param groups: names of hosts by declared name.
    """

    def __init__(self, parsed, groups):
        self.parsed, self.groups = parsed, groups
        self._owners: dict[str, str] = {}  # address → host
        self._networks: dict[object, str] = {}  # network → link

    def of_link(self, name: str, joined: Sequence[tuple[str, ...]],
                ) -> list[dict[str, tuple[str, ...]]]:
        """Return, for each pair or for the segment, addresses by host."""
        declared = self.parsed.data['links'][name]
        explicit = declared.get('addresses')
        if explicit is not None:
            return [self._explicit(name, joined, explicit)]
        if 'networks' not in declared:
            raise self.parsed.error(
                f'link "{name}" has neither "networks" nor "addresses"',
                'links', name)
        networks = self._declared_networks(name)
        given: list[dict[str, list[str]]] = [
            {host: [] for host in hosts} for hosts in joined]
        for index, network in enumerate(networks):
            parts = itertools.repeat(network)
            if len(joined) > 1:
                parts = self._parts(name, index, network, len(joined))
            for hosts, of_hosts, part in zip(joined, given, parts,
                                             strict=False):
                if part.num_addresses < len(hosts) + 2:
                    raise self.parsed.error(
                        f'{part} has no room for the {len(hosts)} ends of '
                        f'link "{name}"', 'links', name, 'networks', index)
                for number, host in enumerate(hosts, 1):
                    self._take(part[number], host, 'links', name)
                    of_hosts[host].append(
                        f'{part[number]}/{part.prefixlen}')
        return [{host: tuple(own) for host, own in of_hosts.items()}
                for of_hosts in given]

    def add_loopback(self, group: str) -> None:
        """Check loopback addresses. They are not taken, since several hosts
        may have the same one, as members have a VIP."""
        for index, text in enumerate(
                self.parsed.data['hosts'][group].get('loopback', ())):
            address = ipaddress.ip_interface(text).ip
            owner = self._owners.get(str(address))
            if owner is not None:
                raise self.parsed.error(
                    f'{address} of "{group}" is that of "{owner}" on a link',
                    'hosts', group, 'loopback', index)

    def next_hops(self, host, group, index, links) -> tuple[str, ...]:
        """Return the addresses that a route's `via` stands for."""
        route = self.parsed.data['hosts'][group]['routes'][index]
        keys = ('hosts', group, 'routes', index, 'via')
        version = ipaddress.ip_network(route['to']).version
        words = route['via']
        words = [words] if isinstance(words, str) else words
        own = [link for link in links
               if any(end.host == host for end in link.ends)]
        return tuple(hop for word in words
                     for hop in self._hops(word, host, own, version, keys))

    def _hops(self, word, host, own, version, keys):
        try:
            address = ipaddress.ip_address(word)
        except ValueError:
            pass
        else:
            # It may be of the other family (RFC 8950).
            if not any(address in ipaddress.ip_interface(text).network
                       for link in own for end in link.ends
                       if end.host == host for text in end.addresses):
                raise self.parsed.error(
                    f'next hop {address} is on no link of "{host}"', *keys)
            return [str(address)]
        names = self.groups.get(word) or [
            name for several in self.groups.values() for name in several
            if name == word]
        if not names:
            raise self.parsed.error(
                f'next hop "{word}" is neither an address nor a host; '
                f'declared are: {", ".join(self.groups)}', *keys)
        return [self._neighbour(name, host, own, version, keys)
                for name in names]

    def _neighbour(self, name, host, own, version, keys):
        for link in own:
            for end in link.ends:
                for text in end.addresses if end.host == name else ():
                    address = ipaddress.ip_interface(text).ip
                    if name != host and address.version == version:
                        return str(address)
        raise self.parsed.error(
            f'"{name}" has no IPv{version} address on a link with "{host}"',
            *keys)

    def _declared_networks(self, name):
        networks = []
        for index, text in enumerate(
                self.parsed.data['links'][name]['networks']):
            network = ipaddress.ip_network(text)
            keys = ('links', name, 'networks', index)
            if any(network.version == other.version for other in networks):
                raise self.parsed.error(
                    f'link "{name}" has a second network of '
                    f'IPv{network.version}', *keys)
            for other, link in self._networks.items():
                if other.version == network.version and (
                        other.overlaps(network)):
                    raise self.parsed.error(
                        f'{network} overlaps {other} of link "{link}"', *keys)
            self._networks[network] = name
            networks.append(network)
        return networks

    def _explicit(self, name, joined, explicit):
        if len(joined) > 1:
            raise self.parsed.error(
                f'link "{name}" is {len(joined)} pairs: their addresses come '
                'from "networks"', 'links', name, 'addresses')
        hosts = joined[0]
        networks = self._declared_networks(name) if (
            'networks' in self.parsed.data['links'][name]) else []
        for host in explicit:
            if host not in hosts:
                raise self.parsed.error(
                    f'"{host}" is no end of link "{name}"; its ends are: '
                    f'{", ".join(hosts)}', 'links', name, 'addresses', host)
        for host in hosts:
            if host not in explicit:
                raise self.parsed.error(
                    f'end "{host}" of link "{name}" has no address',
                    'links', name, 'addresses')
            for index, text in enumerate(explicit[host]):
                address = ipaddress.ip_interface(text)
                self._check_network(name, host, index, address, networks)
                self._take(address.ip, host, 'links', name, 'addresses',
                           host, index)
        return {host: tuple(explicit[host]) for host in hosts}

    def _check_network(self, name, host, index, address, networks):
        keys = ('links', name, 'addresses', host, index)
        of_family = [network for network in networks
                     if network.version == address.version]
        if networks and not any(address in network for network in of_family):
            raise self.parsed.error(
                f'{address} of "{host}" is outside of the networks of link '
                f'"{name}": {", ".join(map(str, networks))}', *keys)
        for other, link in self._networks.items():
            if other.version == address.version and (
                    link != name and other.overlaps(address.network)):
                raise self.parsed.error(
                    f'{address} of "{host}" overlaps {other} of link '
                    f'"{link}"', *keys)
        if networks:
            return
        for other, link in self._networks.items():
            if link == name and other.version == address.version and (
                    other != address.network):
                raise self.parsed.error(
                    f'{address} of "{host}" is outside of {other}, where '
                    f'other ends of link "{name}" are', *keys)
        self._networks[address.network] = name

    def _parts(self, name, index, network, count):
        length = PAIR_LENGTH[network.version]
        if network.prefixlen > length or (
                2 ** (length - network.prefixlen) < count):
            raise self.parsed.error(
                f'{network} has no room for the {count} pairs of link '
                f'"{name}", a /{length} each', 'links', name, 'networks',
                index)
        return network.subnets(new_prefix=length)

    def _take(self, address, host, *keys):
        owner = self._owners.setdefault(str(address), host)
        if owner != host:
            raise self.parsed.error(f'{address} is the address of "{owner}" '
                                    f'and of "{host}"', *keys)

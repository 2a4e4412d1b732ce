# SPDX-License-Identifier: Apache-2.0
"""Reads declarations of beds from files.

With ``count: 8``, a host's name stands for name1 to name8 wherever it is used.
"""

from collections.abc import Mapping
import pathlib

from bench.beds import addressing
from bench.beds import declaration
from bench.beds import interface
from bench.beds import real_machines
from bench.beds import schema
from bench.declarations import document

SCHEMA = schema.SCHEMA
# A bed must have a host with a role of each of these.
NEEDED = ((interface.GENERATOR,), (interface.LOAD_BALANCER,),
          (interface.MEMBER, interface.SINK))
# Names that Linux reserves.
_RESERVED = ('all', 'default', 'lo', 'bonding_masters')
_NIC = ('mtu', 'queues', 'offloads', 'rings', 'receive_xdp')


def read(path: pathlib.Path, provider: str | None = None,
         ) -> declaration.Bed:
    """Read a declaration.

    :param provider: overrides the declared one.
    :raises bench.errors.DeclarationError: the declaration is invalid.
    """
    return from_document(document.read(path, SCHEMA), provider)


def from_document(parsed: document.Document, provider: str | None = None,
                  ) -> declaration.Bed:
    """Like read(), for a document that has been checked against SCHEMA."""
    data = parsed.data
    groups = _groups(parsed)
    _check_roles(parsed)
    addresses = addressing.Addresses(parsed, groups)
    links = tuple(link for name in data['links']
                  for link in _link(parsed, name, groups, addresses))
    _check_interfaces(parsed, links)
    hosts = {}
    for group, names in groups.items():
        addresses.add_loopback(group)
        for name in names:
            hosts[name] = _host(parsed, group, name, links, addresses)
    provider = provider or data.get('provider', declaration.NAMESPACES)
    software = data.get('software', {})
    bed = declaration.Bed(
        name=data['name'], path=parsed.path, provider=provider,
        hosts=hosts, links=links, software=declaration.Software(
            software.get('name'), software.get('version'),
            real_machines.path(parsed, software.get('packages'), 'folder',
                               'packages', 'software', 'packages'),
            software.get('revision'), software.get('configuration', {})),
        guest=declaration.Guest(**data.get('guest', {})),
        provisioning=real_machines.provisioning(
            parsed, _inventory(parsed, groups)), content=data)
    _check_settings(parsed, bed)
    if provider == declaration.SSH:
        real_machines.check(parsed, bed)
    return bed


def _groups(parsed):
    """Return names of hosts by declared name; all names must be unique."""
    groups: dict[str, list[str]] = {}
    owners: dict[str, str] = {}
    for group, host in parsed.data['hosts'].items():
        count = host.get('count')
        names = [group] if count is None else [
            f'{group}{number}' for number in range(1, count + 1)]
        for name in dict.fromkeys((group, *names)):
            if name in owners:
                raise parsed.error(
                    f'host "{name}" is there twice: by "{owners[name]}" and '
                    f'by "{group}"', 'hosts', group)
            owners[name] = group
        groups[group] = names
    return groups


def _check_roles(parsed):
    roles = {host['role'] for host in parsed.data['hosts'].values()}
    for needed in NEEDED:
        if not roles & set(needed):
            raise parsed.error(f'no host has the role {" or ".join(needed)}, '
                               'which a bed must have', 'hosts')


def _link(parsed, name, groups, addresses):
    """Yield the links of a declared one: a segment, or each pair."""
    declared = parsed.data['links'][name]
    if name in _RESERVED:
        raise parsed.error(f'no interface can have the name "{name}"',
                           'links', name)
    ends = [_hosts_of(parsed, word, groups, 'links', name, 'ends', index)
            for index, word in enumerate(declared['ends'])]
    flat = [host for hosts in ends for host in hosts]
    for host in flat:
        if flat.count(host) > 1:
            raise parsed.error(f'link "{name}" has host "{host}" twice',
                               'links', name, 'ends')
    segment = declared.get('kind') == 'segment'
    if not segment and len(ends) != 2:
        raise parsed.error(
            f'link "{name}" has {len(ends)} ends, and pairs have two; "kind: '
            'segment" joins several', 'links', name, 'ends')
    joined = [tuple(flat)] if segment else [
        (left, right) for left in ends[0] for right in ends[1]]
    given = addresses.of_link(name, joined)
    numbers: dict[str, int] = {}
    for hosts, of_hosts in zip(joined, given, strict=True):
        made = []
        for host in hosts:
            numbers[host] = numbers.get(host, 0) + 1
            several = sum(host in pair for pair in joined) > 1
            made.append(declaration.End(
                host, f'{name}{numbers[host]}' if several else name,
                of_hosts[host], _nic(parsed, name, host, groups)))
        yield declaration.Link(
            name, tuple(made), segment,
            declared.get('permanent_neighbours', False))


def _check_interfaces(parsed, links):
    seen: dict[tuple[str, str], str] = {}
    for link in links:
        for end in link.ends:
            other = seen.setdefault((end.host, end.interface), link.name)
            if other != link.name:
                raise parsed.error(
                    f'links "{other}" and "{link.name}" both give "{end.host}"'
                    f' an interface "{end.interface}"', 'links', link.name)


def _hosts_of(parsed, word, groups, *keys):
    """Return the hosts that a name stands for."""
    if word in groups:
        return groups[word]
    if any(word in names for names in groups.values()):
        return [word]
    known = ', '.join(groups)
    raise parsed.error(f'{".".join(map(str, keys))}: there is no host "{word}"'
                       f'; declared are: {known}', *keys)


def group_of(groups: Mapping[str, list[str]], host: str) -> str:
    """Return the declared name of a host."""
    return next(group for group, names in groups.items() if host in names)


def _nic(parsed, link, host, groups):
    group = group_of(groups, host)
    declared = parsed.data['links'][link]
    own = parsed.data['hosts'][group].get('nic', {}).get(link, {})
    # On routers, the kernel must receive frames that XDP has sent; other hosts
    # have programs of their own for that.
    values = {'receive_xdp':
              parsed.data['hosts'][group]['role'] == interface.ROUTER}
    for source in (declared, own):
        for key in _NIC:
            if isinstance(source.get(key), dict):
                values[key] = {**values.get(key, {}), **source[key]}
            elif key in source:
                values[key] = source[key]
    rss = {**declared.get('rss', {}), **own.get('rss', {})}
    return declaration.Nic(**values, rss_equal=rss.get('equal'),
                           rss_fields=rss.get('fields', {}))


def _host(parsed, group, name, links, addresses):
    declared = parsed.data['hosts'][group]
    for link in declared.get('nic', {}):
        if not any(end.host == name for other in links
                   if other.name == link for end in other.ends):
            raise parsed.error(
                f'"{name}" has settings of an interface to link "{link}", of '
                'which it is no end', 'hosts', group, 'nic', link)
    routes = tuple(
        declaration.Route(route['to'], addresses.next_hops(
            name, group, index, links), route.get('mtu'))
        for index, route in enumerate(declared.get('routes', ())))
    return declaration.Host(
        name, group, declared['role'],
        {**parsed.data.get('sysctl', {}), **declared.get('sysctl', {})},
        tuple(declared.get('loopback', ())), routes,
        real_machines.access(parsed, group))


def _inventory(parsed, groups):
    """Return hosts by group of a playbook's inventory."""
    declared = parsed.data.get('ssh', {}).get('groups', {})
    return {name: tuple(host for index, word in enumerate(words)
                        for host in _hosts_of(parsed, word, groups, 'ssh',
                                              'groups', name, index))
            for name, words in declared.items()}


def _check_settings(parsed, bed):
    """Refuse settings that the provider does not support."""
    virtual = bed.provider != declaration.SSH
    for name in parsed.data['links']:
        for where in (('links', name), *(
                ('hosts', group, 'nic', name)
                for group in parsed.data['hosts'])):
            settings = parsed.data
            for key in where:
                settings = settings.get(key, {})
            for key in ('rss', 'rings') if virtual else ('receive_xdp',):
                if key in settings:
                    raise parsed.error(
                        f'"{key}" is not for provider {bed.provider}: '
                        + ('veth pairs have no such settings' if virtual else
                           'real interfaces receive whatever arrives'),
                        *where, key)
    if bed.provider == declaration.NAMESPACES:
        for keys in (('sysctl',), *(('hosts', group, 'sysctl')
                                    for group in parsed.data['hosts'])):
            settings = parsed.data
            for key in keys:
                settings = settings.get(key, {})
            for name in settings:
                if not name.replace('/', '.').startswith('net.'):
                    raise parsed.error(
                        f'{name} is a setting of this whole machine, and '
                        'hosts of provider namespaces have only those below '
                        'net.', *keys, name)
    for key in real_machines.INSTALLED if virtual else ():
        if key in parsed.data.get('software', {}):
            raise parsed.error(
                f'provider {bed.provider} runs the software of this checkout; '
                'versions are installed on machines (provider ssh)',
                'software', key)

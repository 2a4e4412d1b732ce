# SPDX-License-Identifier: Apache-2.0
"""A hypervisor's datapath in memory, and documents for it."""

import errno
import pathlib

from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.library import HostError
from octavia_xdp_provider.process.agents.wanted import Wanted

PORT = '11111111-1111-4111-8111-111111111111'
OTHER = '22222222-2222-4222-8222-222222222222'
GROUP = '33333333-3333-4333-8333-333333333333'
MAC, GATEWAY_MAC = 'fa:16:3e:00:00:05', 'fa:16:3e:00:00:01'


def entry(key, **more):
    return {'key': key, 'load_balancer_id': 'lb', 'listener_id': 'listener',
            'member_id': 'member', 'vip': '203.0.113.10', 'vip_port': 80,
            'address': '10.0.0.5', 'port': 8080, 'protocol': 6,
            'gateway_mac': GATEWAY_MAC, **more}


def rule(**more):
    return {'ip_version': 4, 'protocol': 6, 'ports': [8080, 8080],
            'remote_network': '198.51.100.0/24', 'address_set': None, **more}


def port(*entries, port_id=PORT, **more):
    return {documents.KIND: 'port', 'version': 1, 'id': port_id, 'mac': MAC,
            'mtu': 1442, 'open': False, 'rules': [rule()],
            'entries': list(entries), **more}


def address_set(*networks, set_id=GROUP):
    return {documents.KIND: 'address_set', 'version': 1, 'id': set_id,
            'networks': list(networks)}


def wanted(*documents, generation=1, as_of=1):
    return Wanted(as_of, {document['id']: (generation, document)
                          for document in documents})


class Datapath:
    """A fake of the library that stores what it is given.

    :param folder: where pins are files.
    :ivar calls: names of the calls that change something.
    :ivar failing: names of calls that fail; or (name, first argument).
    """

    def __init__(self, folder):
        self.links = pathlib.Path(folder, 'links')
        self.links.mkdir(parents=True, exist_ok=True)
        self.held_ports, self.held_entries, self.sets = {}, {}, {}
        self.rules, self.settings, self.networks = {}, None, None
        self.peers = None
        self.proxies = None
        self.calls, self.failing = [], set()

    def _call(self, name, first=None):
        if name in self.failing or (name, first) in self.failing:
            raise HostError(errno.ENOSPC, f'{name} fails')
        self.calls.append(name)

    def set_settings(self, settings):
        self._call('set_settings')
        self.settings = settings

    def set_networks(self, networks):
        self._call('set_networks')
        self.networks = list(networks)

    def set_proxies(self, networks):
        self._call('set_proxies')
        self.proxies = list(networks)

    def set_peers(self, networks):
        self._call('set_peers')
        self.peers = list(networks)

    def set_address_set(self, number, networks):
        self._call('set_address_set')
        self.sets[number] = list(networks)

    def attach(self, hook, ifindex):
        self._call('attach', ifindex)
        self._pin(hook, ifindex).touch()

    def detach(self, hook, ifindex):
        self._call('detach', ifindex)
        self._pin(hook, ifindex).unlink()

    def _pin(self, hook, ifindex):
        name = hook.name.lower().replace('_', '-')
        return self.links / f'{name}-{ifindex}'

    def pinned(self):
        return sorted(path.name for path in self.links.iterdir())

    def set_port(self, wanted_port, rules=()):
        self._call('set_port', wanted_port.id)
        self.held_ports[wanted_port.id] = types.PortState(
            wanted_port.id, wanted_port.ifindex, wanted_port.open,
            wanted_port.flows_max, 0, len(rules))
        self.rules[wanted_port.id] = tuple(rules)

    def delete_port(self, port_id):
        self._call('delete_port', port_id)
        del self.held_ports[port_id]
        for key, entry in list(self.held_entries.items()):
            if entry.port_id == port_id:
                del self.held_entries[key]

    def set_entry(self, wanted_entry):
        self._call('set_entry', wanted_entry.key)
        if wanted_entry.port_id not in self.held_ports:
            raise HostError(errno.ENOENT, 'no such port')
        for key, entry in self.held_entries.items():
            if (key == wanted_entry.key) != (
                    entry[1:6] == wanted_entry[1:6]):
                raise HostError(errno.EEXIST, f'key {key} is another\'s')
        self.held_entries[wanted_entry.key] = wanted_entry

    def delete_entry(self, key):
        self._call('delete_entry', key)
        del self.held_entries[key]

    def ports(self):
        return list(self.held_ports.values())

    def entries(self):
        return [types.EntryState(entry, 0, 0, 0, 0, 0, 0)
                for entry in self.held_entries.values()]

    def drops(self):
        return {}

    def outcomes(self):
        return {}

    def tick(self):
        return 0

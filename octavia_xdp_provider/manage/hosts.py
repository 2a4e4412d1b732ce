# SPDX-License-Identifier: Apache-2.0
"""Commands for hypervisors that serve members."""

import argparse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import node_registration
from octavia_xdp_provider.process import ages

_HELP = 'name of the hypervisor in Neutron (binding:host_id)'


def _unknown(host: str) -> command.CommandError:
    return command.CommandError(
        f'hypervisor {host} is unknown; "octavia-xdp-manage host list" shows '
        'the registered ones')


def _tunnel_ends(state: Mapping[str, Any]) -> str | None:
    return ' '.join([*(state.get('geneve') or ()),
                     *filter(None, [state.get('srv6')])]) or None


def _row(host: Any, host_objects: Iterable[Any], keys: Iterable[Any],
         now: float, timeout: float) -> dict[str, Any]:
    wanted = [host_object for host_object in host_objects
              if host_object.host == host.host
              and host_object.removed_generation is None]
    ports = [host_object for host_object in wanted
             if host_object.kind == host_spec.PORT]
    state = host.state
    return {
        'host': host.host, 'in_service': host.in_service,
        'alive': ages.age(host.last_seen, now) <= timeout,
        'last_report': (f'{ages.age(host.last_seen, now):.1f} s ago'
                        if host.last_seen else 'never'),
        'tunnels_to': _tunnel_ends(state), 'mtu': state.get('mtu'),
        'ports': len(ports),
        'ports_ready': sum(port.is_held for port in ports),
        'keys': sum(key.host == host.host and key.free_at is None
                    for key in keys),
        'problems': '; '.join([
            *map(str, state.get('problems') or ()),
            *(f'port {port.id}: {port.error}' for port in ports
              if port.error),
            *(f'group {host_object.id} has reached the limit of '
              f'{host_spec.ADDRESSES_MAX} networks: clients in further '
              'networks of it are refused'
              for host_object in wanted if _is_full(host_object))])}


def _is_full(host_object: Any) -> bool:
    """Return whether networks of a group may have been left out."""
    return host_object.kind == host_spec.ADDRESS_SET and (
        len(host_object.document['networks']) >= host_spec.ADDRESSES_MAX)


class List(command.List):
    """List the registered hypervisors.

    "ports" counts the ports of members, "ports_ready" those that the
    hypervisor's programs serve as wanted. "tunnels_to" has the addresses and
    the network of SIDs that its agent reports.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        host_objects = store.hypervisors.objects()
        keys = store.ways.host_keys()
        now, timeout = store.database.now(), self.conf.zero_touch.host_timeout
        rows = [_row(host, host_objects, keys, now, timeout)
                for host in store.hypervisors.all()]
        columns = ('host', 'in_service', 'alive', 'last_report',
                   'tunnels_to', 'mtu', 'ports', 'ports_ready', 'keys',
                   'problems')
        return columns, [[row[name] for name in columns] for row in
                         sorted(rows, key=lambda row: row['host'])]


class Show(names.HostArgument, command.Show):
    """Show a hypervisor: what is wanted there, what it has and reports."""

    host_help = _HELP

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        for host in store.hypervisors.all():
            if host.host != arguments.host:
                continue
            host_objects = store.hypervisors.objects([host.host])
            row = _row(host, host_objects, store.ways.host_keys(),
                       store.database.now(), self.conf.zero_touch.host_timeout)
            row['objects'] = [
                _object_row(host_object) for host_object
                in sorted(host_objects, key=lambda each: each.id)]
            row['state'] = host.state
            return list(row), list(row.values())
        raise _unknown(arguments.host)


def _object_row(host_object: Any) -> dict[str, Any]:
    return {
        'id': host_object.id, 'kind': host_object.kind,
        'state': _state(host_object), 'generation': host_object.generation,
        'held_generation': host_object.held_generation,
        'ifindex': host_object.ifindex, 'error': host_object.error,
        'entries': len(host_object.document.get('entries', ())),
        'networks': len(host_object.document.get('networks', ())),
        'counters': host_object.counters}


def _state(host_object: Any) -> str:
    if host_object.removed_generation is not None:
        return 'leaving'
    if host_object.error:
        return 'failing'
    return 'ready' if host_object.is_held else 'loading'


class Create(node_registration.Registration):
    """Register a hypervisor, and create its user and virtual host.

    The controllers serve registered hypervisors only. A hypervisor that is
    already registered gets a new password.
    """

    host_help = _HELP

    def take_action(self, arguments: argparse.Namespace) -> None:
        host = node_registration.check_name(arguments.host)
        if not self.conf.nodes.transport_url:
            raise command.CommandError(
                '[nodes] transport_url is not set: set it to the broker that '
                'serves hypervisors')
        is_new = self.store().hypervisors.register(host)
        password = broker.new_password()
        node_registration.run_or_print(
            self.app, arguments, broker.commands(
                broker.for_host(host, password), again=not is_new),
            ('already exists',))
        url = broker.transport_url(self.conf.nodes.transport_url,
                                   broker.host_vhost(host), password)
        self.app.stdout.write(
            'Configuration of the hypervisor, readable by its agent alone:\n'
            '  [DEFAULT]\n'
            f'  host = {host}\n'
            f'  transport_url = {url}\n')


class Delete(node_registration.Registration):
    """Remove a hypervisor that no longer runs an agent.

    Members on it are reached as if it had no agent, and its credentials
    become invalid. Disable it first and wait until it has no ports: otherwise
    its programs keep their entries.
    """

    host_help = _HELP

    def take_action(self, arguments: argparse.Namespace) -> None:
        host = node_registration.check_name(arguments.host)
        if not self.store().hypervisors.remove(host):
            raise _unknown(host)
        node_registration.run_or_print(
            self.app, arguments,
            broker.commands_to_remove(broker.host_vhost(host)),
            ('does not exist', 'no_such'))


class _SetInService(names.HostArgument, command.Command):
    host_help = _HELP
    in_service = True

    def take_action(self, arguments: argparse.Namespace) -> None:
        if not self.store().hypervisors.set_in_service(arguments.host,
                                                       self.in_service):
            raise _unknown(arguments.host)


class Enable(_SetInService):
    """Reach members on a hypervisor through its agent again."""


class Disable(_SetInService):
    """Stop reaching members through a hypervisor's agent.

    Members on it are reached at their addresses where the flavor prefers
    zero-touch, and are in ERROR where it requires zero-touch. Their entries
    are removed from the hypervisor when LB nodes no longer use them.
    """

    in_service = False

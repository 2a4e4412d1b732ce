# SPDX-License-Identifier: Apache-2.0
"""Commands about hypervisors that serve members."""

from octavia_xdp_provider.common import ages
from octavia_xdp_provider.common import host_spec
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import node_registration

_HELP = 'name of the hypervisor as Neutron has it (binding:host_id)'


def _unknown(host):
    return command.NotDone(
        f'hypervisor {host} is unknown; "octavia-xdp-manage host list" shows '
        'those that are registered')


def _ends(state):
    return ' '.join([*(state.get('geneve') or ()),
                     *filter(None, [state.get('srv6')])]) or None


def _row(host, objects, keys, now, timeout):
    there = [one for one in objects if one.host == host.host
             and one.removed_generation is None]
    mine = [one for one in there if one.kind == host_spec.PORT]
    state = host.state
    return {
        'host': host.host, 'in_service': host.in_service,
        'alive': ages.age(host.last_seen, now) <= timeout,
        'last_report': (f'{ages.age(host.last_seen, now):.1f} s ago'
                        if host.last_seen else 'never'),
        'tunnels_to': _ends(state), 'mtu': state.get('mtu'),
        'ports': len(mine),
        'ports_ready': sum(one.is_held for one in mine),
        'keys': sum(key.host == host.host and key.free_at is None
                    for key in keys),
        'problems': '; '.join([
            *map(str, state.get('problems') or ()),
            *(f'port {one.id}: {one.error}' for one in mine if one.error),
            *(f'group {one.id} fills the {host_spec.ADDRESSES_MAX} networks '
              'that a hypervisor takes of one: clients in any others of it '
              'are not let in' for one in there if _is_full(one))])}


def _is_full(one):
    """Whether networks of a group may have been left out."""
    return one.kind == host_spec.ADDRESS_SET and (
        len(one.document['networks']) >= host_spec.ADDRESSES_MAX)


class List(command.List):
    """List the hypervisors whose agents may call.

    "ports" are those that have members; those that are ready are in the
    hypervisor's programs as wanted. "tunnels_to" are addresses and the
    network of SIDs that its agent reports.
    """

    def take_action(self, arguments):
        store = self.store()
        objects, keys = store.host_objects(), store.host_keys()
        now, timeout = store.now(), self.conf.zero_touch.host_timeout
        found = [_row(host, objects, keys, now, timeout)
                 for host in store.hypervisors()]
        columns = ('host', 'in_service', 'alive', 'last_report',
                   'tunnels_to', 'mtu', 'ports', 'ports_ready', 'keys',
                   'problems')
        return columns, [[row[name] for name in columns] for row in
                         sorted(found, key=lambda row: row['host'])]


class Show(command.Show):
    """Show a hypervisor: what it should have, has, and reports."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('host', help=_HELP)
        return parser

    def take_action(self, arguments):
        store = self.store()
        for host in store.hypervisors():
            if host.host != arguments.host:
                continue
            objects = store.host_objects([host.host])
            row = _row(host, objects, store.host_keys(), store.now(),
                       self.conf.zero_touch.host_timeout)
            row['objects'] = [{
                'id': one.id, 'kind': one.kind,
                'state': _state(one), 'generation': one.generation,
                'held_generation': one.held_generation,
                'ifindex': one.ifindex, 'error': one.error,
                'entries': len(one.document.get('entries', ())),
                'networks': len(one.document.get('networks', ())),
                'counters': one.counters}
                for one in sorted(objects, key=lambda one: one.id)]
            row['state'] = host.state
            return list(row), list(row.values())
        raise _unknown(arguments.host)


def _state(one):
    if one.removed_generation is not None:
        return 'leaving'
    if one.error:
        return 'failing'
    return 'ready' if one.is_held else 'loading'


class Create(command.Command):
    """Register a hypervisor, and make its user and virtual host.

    The controllers serve no other one. A hypervisor that is registered
    already gets a new password.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        node_registration.add_arguments(parser, _HELP)
        return parser

    def take_action(self, arguments):
        host = node_registration.checked(arguments.host)
        if not self.conf.nodes.transport_url:
            raise command.NotDone(
                '[nodes] transport_url is not set: without it the '
                'controllers do not know where hypervisors are served')
        is_new = self.store().register_hypervisor(host)
        password = broker.new_password()
        node_registration.carry_out(
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


class Delete(command.Command):
    """Forget a hypervisor that does not run an agent any more.

    Members on it are reached as if it had none; its credentials end. Disable
    it before, and wait until it has no ports: what its programs have stays
    there otherwise.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        node_registration.add_arguments(parser, _HELP)
        return parser

    def take_action(self, arguments):
        host = node_registration.checked(arguments.host)
        if not self.store().remove_hypervisor(host):
            raise _unknown(host)
        node_registration.carry_out(
            self.app, arguments,
            broker.commands_to_remove(broker.host_vhost(host)),
            ('does not exist', 'no_such'))


class _SetInService(command.Command):
    in_service = True

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('host', help=_HELP)
        return parser

    def take_action(self, arguments):
        if not self.store().set_hypervisor_in_service(arguments.host,
                                                      self.in_service):
            raise _unknown(arguments.host)


class Enable(_SetInService):
    """Let members on a hypervisor be reached through it again."""


class Disable(_SetInService):
    """Reach no member through a hypervisor's agent.

    Members on it are reached at their addresses where the flavor prefers
    zero-touch, and are in ERROR where it requires it. Their entries leave the
    hypervisor when LB nodes have stopped to use them.
    """

    in_service = False

# SPDX-License-Identifier: Apache-2.0
"""Commands that show where the members of a load balancer are."""

import contextlib
import time

from octavia_xdp_provider.common import flavor
from octavia_xdp_provider.common import option_values
from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.neutron_ports import findings
from octavia_xdp_provider.controller.neutron_ports import follower
from octavia_xdp_provider.controller.neutron_ports import search
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names

COLUMNS = ('member', 'name', 'address', 'protocol_port', 'way', 'why',
           'encapsulation',
           'port', 'hypervisor', 'status', 'mtu', 'gateway_mac',
           'security_groups', 'has_tap', 'reason')


class Members(command.List):
    """List the members of a load balancer, and where Neutron has them.

    "way" is how LB nodes reach a member: "direct", at its address, wrapped as
    "encapsulation" says; "tunnel", through the agent on its hypervisor;
    "waiting" until that has confirmed it; "none", not at all; and "why".
    "has_tap" is whether its port is a VM's whose packets pass a tap of its
    hypervisor, with a router as its gateway; "reason" says what it is
    instead. "security_groups" is "open" where port security is off. Neutron
    is asked as [neutron] says.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        names.add_load_balancer(parser)
        return parser

    def take_action(self, arguments):
        store = self.store()
        document = names.load_balancer(
            store, arguments.load_balancer).document
        ways = {way.member_id: way
                for way in store.member_ways(document['id'])}
        members = _members(document)
        try:
            found = search.find(_neutron(self.conf), {
                wanted for _member, wanted in members.values()})
        except errors.NeutronUnavailable as error:
            raise command.NotDone(
                f'Neutron cannot be asked, nothing is known: {error}'
            ) from error
        encapsulation = flavor.value(document['flavor'], 'encapsulation')
        unknown = 'waiting' if spec.is_zero_touch(document) else 'direct'
        return COLUMNS, [
            [key, member.get('name'), member['address'],
             member['protocol_port'],
             ways[key].way if key in ways else unknown,
             ways[key].reason if key in ways else '',
             member['tunnel']['encapsulation'] if 'tunnel' in member
             else encapsulation,
             *_columns(found[wanted])]
            for key, (member, wanted) in sorted(
                members.items(), key=lambda one: (
                    one[1][0]['address'], one[1][0]['protocol_port'],
                    one[0]))]


class Watch(command.Command):
    """Print where the members of a load balancer are, and each change of it.

    It goes on until it is interrupted. A look is at 200 members, the next
    one at the next 200. While Neutron does not answer, that is printed.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        names.add_load_balancer(parser)
        parser.add_argument('--interval', type=float, default=5.0,
                            metavar='SECONDS',
                            help='from one look to the next (5)')
        return parser

    def take_action(self, arguments):
        store = self.store()
        key = names.load_balancer(store, arguments.load_balancer).id
        following = follower.Follower(_neutron(self.conf))
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                row = store.load_balancer(key)
                if row is None:
                    raise command.NotDone(
                        f'load balancer {key} is not held any more')
                self._look(following, row.document)
                time.sleep(arguments.interval)

    def _look(self, following, document):
        try:
            members = {wanted for _member, wanted
                       in _members(document).values()}
            following.leave(following.members - members)
            following.follow(members)
            changed = following.step()
        except errors.NeutronUnavailable as error:
            self._say(f'Neutron cannot be asked: {error}')
            return
        for wanted, finding in sorted(changed.items(), key=lambda one: (
                one[0].address, one[0].subnet_id or '')):
            self._say(f'{wanted.address}: {_line(finding)}')

    def _say(self, text):
        self.app.stdout.write(f'{time.strftime("%H:%M:%S")} {text}\n')
        self.app.stdout.flush()


def _neutron(conf):
    try:
        return client.Neutron(conf)
    except option_values.ConfigurationError as error:
        raise command.NotDone(str(error)) from error


def _members(document):
    """Id of a member → (member, as it is looked for)."""
    return {key: (member, findings.Wanted(
        document['project_id'], member['address'], member.get('subnet_id')))
        for pool in document['pools'].values()
        for key, member in pool['members'].items()}


def _line(finding):
    if finding.port is None:
        return finding.reason
    host = _host(finding.port) or 'no hypervisor'
    rules = (f'{len(finding.port.rules)} rules'
             if finding.port.security_enabled else 'open')
    return '; '.join(filter(None, (
        f'port {finding.port.id} on {host}, {finding.port.status}, {rules}',
        finding.reason)))


def _host(port):
    if port.migrating_to:
        return f'{port.host}, moving to {port.migrating_to}'
    return port.host


def _columns(finding):
    port = finding.port
    state = [finding.obstacle is None, finding.reason]
    if port is None:
        return [None] * 6 + state
    return [port.id, _host(port), port.status, port.mtu, port.gateway_mac,
            ' '.join(port.security_group_ids) if port.security_enabled
            else 'open', *state]

# SPDX-License-Identifier: Apache-2.0
"""Commands that show where the members of a load balancer are."""

import argparse
import contextlib
import time
from typing import Any

from oslo_config import cfg

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.contracts import spec
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


class Members(names.LoadBalancerArgument, command.List):
    """List the members of a load balancer, and their ports in Neutron.

    "way" is how LB nodes reach a member: "direct", at its address, with the
    outer header in "encapsulation"; "tunnel", through the agent on its
    hypervisor; "waiting" until that agent has confirmed it; "none", not at
    all. "why" is the reason. "has_tap" is true if its port belongs to a VM
    whose packets pass a tap of its hypervisor, with a router as its gateway;
    otherwise "reason" says why not. "security_groups" is "open" where port
    security is off. The option group [neutron] has the credentials.
    """

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        store = self.store()
        document = names.find_load_balancer(
            store, arguments.load_balancer).document
        ways = {way.member_id: way
                for way in store.ways.select(document['id'])}
        members = _members(document)
        try:
            found_ports = search.find(open_neutron(self.conf), {
                wanted for _member, wanted in members.values()})
        except errors.NeutronUnavailable as error:
            raise command.CommandError(
                f'Neutron is unavailable, nothing can be shown: {error}'
            ) from error
        encapsulation = flavor.value(document['flavor'], 'encapsulation')
        default_way = 'waiting' if spec.is_zero_touch(document) else 'direct'
        return COLUMNS, [
            [key, member.get('name'), member['address'],
             member['protocol_port'],
             ways[key].way if key in ways else default_way,
             ways[key].reason if key in ways else '',
             member['tunnel']['encapsulation'] if 'tunnel' in member
             else encapsulation,
             *_port_columns(found_ports[wanted])]
            for key, (member, wanted) in sorted(
                members.items(), key=lambda item: (
                    item[1][0]['address'], item[1][0]['protocol_port'],
                    item[0]))]


class Watch(names.LoadBalancerArgument, command.Command):
    """Print the ports of a load balancer's members, and each change of them.

    The command runs until it is interrupted. Each interval it asks Neutron
    about 200 members, then about the next 200. It prints errors of Neutron.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--interval', type=float, default=5.0,
                            metavar='SECONDS',
                            help='time between two queries (5)')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        store = self.store()
        key = names.find_load_balancer(store, arguments.load_balancer).id
        port_follower = follower.Follower(open_neutron(self.conf))
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                row = store.load_balancers.get(key)
                if row is None:
                    raise command.CommandError(
                        f'load balancer {key} was deleted')
                self._print_changes(port_follower, row.document)
                time.sleep(arguments.interval)

    def _print_changes(self, port_follower: follower.Follower,
                       document: spec.Document) -> None:
        try:
            members = {wanted for _member, wanted
                       in _members(document).values()}
            port_follower.leave(port_follower.members - members)
            port_follower.follow(members)
            changed = port_follower.step()
        except errors.NeutronUnavailable as error:
            self._print(f'Neutron is unavailable: {error}')
            return
        for wanted, finding in sorted(changed.items(), key=lambda item: (
                item[0].address, item[0].subnet_id or '')):
            self._print(f'{wanted.address}: {_describe(finding)}')

    def _print(self, text: str) -> None:
        self.app.stdout.write(f'{time.strftime("%H:%M:%S")} {text}\n')
        self.app.stdout.flush()


def open_neutron(conf: cfg.ConfigOpts) -> client.Neutron:
    try:
        return client.Neutron(conf)
    except option_values.ConfigurationError as error:
        raise command.CommandError(str(error)) from error


def _members(document: spec.Document
             ) -> dict[str, tuple[spec.Member, findings.Wanted]]:
    """Return {member id: (member, what to search for in Neutron)}."""
    return {key: (member, findings.Wanted(
        document['project_id'] or '', member['address'],
        member.get('subnet_id')))
        for pool in document['pools'].values()
        for key, member in pool['members'].items()}


def _describe(finding: findings.Finding) -> str:
    if finding.port is None:
        return finding.reason
    host = _describe_host(finding.port) or 'no hypervisor'
    rules = (f'{len(finding.port.rules)} rules'
             if finding.port.security_enabled else 'open')
    return '; '.join(filter(None, (
        f'port {finding.port.id} on {host}, {finding.port.status}, {rules}',
        finding.reason)))


def _describe_host(port: Any) -> Any:
    if port.migrating_to:
        return f'{port.host}, moving to {port.migrating_to}'
    return port.host


def _port_columns(finding: findings.Finding) -> list[Any]:
    port = finding.port
    state = [finding.obstacle is None, finding.reason]
    if port is None:
        return [None] * 6 + state
    return [port.id, _describe_host(port), port.status, port.mtu,
            port.gateway_mac,
            ' '.join(port.security_group_ids) if port.security_enabled
            else 'open', *state]

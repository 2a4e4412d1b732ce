# SPDX-License-Identifier: Apache-2.0
"""Commands that register and remove LB nodes and proxy nodes."""

import argparse
from collections.abc import Sequence
import json
import shlex
import shutil
import subprocess
from typing import Any

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import rows
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import node_state
from octavia_xdp_provider.manage import public_key

RABBITMQCTL = 'rabbitmqctl'


class Registration(names.HostArgument, command.Command):
    """Base class of commands that change a host's user at the broker."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--apply', action='store_true',
            help=f'run {RABBITMQCTL} on this host, which must be one of the '
                 'broker, instead of printing the commands')
        return parser


def check_name(host: str) -> str:
    """Return the name if it is valid on the broker.

    :raises CommandError: it is not.
    """
    if not broker.HOST_PATTERN.fullmatch(host):
        raise command.CommandError(
            f'{host!r} cannot be the name of a node: use up to 64 letters, '
            'digits, dots, hyphens and underscores')
    return host


def run_or_print(app: Any, arguments: argparse.Namespace, commands: Any,
                 ignored: Sequence[str] = ()) -> None:
    """Run commands of the broker with --apply, print them without.

    :param ignored: texts of errors that mean that nothing needs to be done.
    """
    if not arguments.apply:
        app.stdout.write('Run on a host of the broker:\n')
        for step in commands:
            # printf is a shell builtin: other users cannot see its arguments.
            secret = '' if step.stdin is None else (
                f"printf '%s\\n' {shlex.quote(step.stdin)} | ")
            app.stdout.write(
                f'  {secret}{shlex.join([RABBITMQCTL, *step.words])}\n')
        return
    if shutil.which(RABBITMQCTL) is None:
        raise command.CommandError(
            f'--apply: there is no {RABBITMQCTL} on this host; omit --apply '
            'and run the printed commands on a host of the broker')
    for step in commands:
        done = subprocess.run(
            [RABBITMQCTL, '--quiet', *step.words], text=True,
            input=f'{step.stdin}\n' if step.stdin is not None else '',
            capture_output=True)
        text = (done.stderr or done.stdout).strip()
        if done.returncode and not any(word in text for word in ignored):
            raise command.CommandError(
                f'--apply: {RABBITMQCTL} {step.words[0]} failed: {text}')


class Create(Registration):
    """Register a node, and create its user and virtual host.

    The controllers serve registered nodes only. A node that is already
    registered gets a new password, and with --zone that zone, with --address
    these addresses; its role cannot be changed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--nat-pool', action='append', metavar='CIDR', default=[],
            help='one of the [nat] pools of a new node; may be repeated')
        parser.add_argument(
            '--zone', help='availability zone that the node is in; load '
                           'balancers are spread over zones')
        parser.add_argument(
            '--role', choices=(rows.LB, rows.PROXY),
            help='lb (the default): an LB node, which forwards packets; '
                 'proxy: a proxy node, which serves HTTP and TLS')
        parser.add_argument(
            '--address', action='append', metavar='ADDRESS', default=[],
            help='the address that LB nodes reach a proxy node at; may be '
                 'repeated for the other family')
        parser.add_argument(
            '--public-key', metavar='KEY',
            help='the key that "octavia-xdp-proxy-agent --public-key" prints '
                 'on a proxy node, for which secrets are sealed')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        host = check_name(arguments.host)
        if not self.conf.nodes.transport_url:
            raise command.CommandError(
                '[nodes] transport_url is not set: set it to the broker that '
                'serves the nodes')
        store = self.store()
        if arguments.public_key is not None:
            public_key.check(arguments.public_key)
        try:
            is_new = store.nodes.register(
                host, arguments.nat_pool, arguments.zone,
                role=arguments.role, addresses=arguments.address)
            if not is_new and arguments.zone is not None:
                store.nodes.set_zone(host, arguments.zone)
            if not is_new and arguments.address:
                store.nodes.set_proxy_addresses(host, arguments.address)
            if arguments.public_key is not None:
                public_key.register(store, host, arguments.public_key)
        except errors.Refused as error:
            raise command.CommandError(str(error)) from error
        password = broker.new_password()
        run_or_print(self.app, arguments, broker.commands(
            broker.for_node(host, password), again=not is_new),
            ('already exists',))
        url = broker.node_transport_url(self.conf.nodes.transport_url, host,
                                        password)
        self.app.stdout.write(
            'Configuration of the node, readable by its agent alone:\n'
            '  [DEFAULT]\n'
            f'  host = {host}\n'
            f'  transport_url = {url}\n')


class Delete(Registration):
    """Remove an LB node or a proxy node that will never come back.

    Its load balancers are placed on other nodes, and its credentials become
    invalid. A node that is alive and has NAT flows, which no other node has,
    is removed only with --now.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--now', action='store_true',
                            help='even if NAT flows break')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        host = check_name(arguments.host)
        store = self.store()
        if not arguments.now:
            self._check_flows(store, host)
        if not store.nodes.remove(host):
            raise command.CommandError(f'node {host} is unknown')
        run_or_print(self.app, arguments,
                   broker.commands_to_remove(broker.node_vhost(host)),
                   ('does not exist', 'no_such'))

    def _check_flows(self, store: queries.Store, host: str) -> None:
        timeout_s, now = self.conf.placement.node_timeout, store.database.now()
        for node in store.nodes.all():
            flows = node_state.nat_flows(node.state or {})
            if (node.host == host and flows
                    and node_api.alive(node, timeout_s, now)):
                raise command.CommandError(
                    f'node {host} is alive and has {flows} NAT flows, which '
                    'would break because no other node has them. Use "node '
                    f'drain --wait {host}" first, or --now')


class Control(command.Command):
    """Print commands that create the users of driver and controllers.

    With --definitions it prints a file for RabbitMQ to load instead.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--definitions', action='store_true',
            help='print RabbitMQ definitions (JSON) instead of commands')
        parser.add_argument('--apply', action='store_true',
                            help=f'run {RABBITMQCTL} on this host')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        passwords = broker.new_password(), broker.new_password()
        grants = broker.for_control(*passwords)
        if arguments.definitions:
            self.app.stdout.write(
                json.dumps(broker.definitions(grants), indent=2) + '\n')
        else:
            run_or_print(self.app, arguments, broker.commands(grants),
                       ('already exists',))
        self.app.stdout.write(
            'Configuration of the controllers:\n'
            '  [DEFAULT]\n'
            f'  transport_url = rabbit://{broker.CONTROLLER_USER}:'
            f'{passwords[0]}@BROKER:5671/{broker.CONTROL_VHOST}\n'
            '  [nodes]\n'
            f'  transport_url = rabbit://{broker.CONTROLLER_USER}:'
            f'{passwords[0]}@BROKER:5671/{{vhost}}\n'
            'Configuration of the driver, where octavia-api runs:\n'
            '  [DEFAULT]\n'
            f'  transport_url = rabbit://{broker.DRIVER_USER}:'
            f'{passwords[1]}@BROKER:5671/{broker.CONTROL_VHOST}\n')

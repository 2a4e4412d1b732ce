# SPDX-License-Identifier: Apache-2.0
"""Commands that make an LB node known, and forget it."""

import json
import shlex
import shutil
import subprocess

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.controller import broker
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import node_state

RABBITMQCTL = 'rabbitmqctl'


def add_arguments(parser, help_='[DEFAULT] host of the node'):
    parser.add_argument('host', help=help_)
    parser.add_argument(
        '--apply', action='store_true',
        help=f'run {RABBITMQCTL} here, on a host of the broker, instead of '
             'printing what to run')


def checked(host):
    if not broker.HOST_PATTERN.fullmatch(host):
        raise command.NotDone(
            f'{host!r} cannot be the name of a node: use up to 64 letters, '
            'digits, dots, hyphens and underscores')
    return host


def carry_out(app, arguments, commands, ignored=()):
    """Run or print commands of the broker.

    :param ignored: texts of errors that mean that there is nothing to do.
    """
    if not arguments.apply:
        app.stdout.write('Run on a host of the broker:\n')
        for step in commands:
            # printf is the shell's own: no other user sees what it prints.
            secret = '' if step.stdin is None else (
                f"printf '%s\\n' {shlex.quote(step.stdin)} | ")
            app.stdout.write(
                f'  {secret}{shlex.join([RABBITMQCTL, *step.words])}\n')
        return
    if shutil.which(RABBITMQCTL) is None:
        raise command.NotDone(
            f'--apply: there is no {RABBITMQCTL} on this host; leave it out '
            'and run what is then printed on a host of the broker')
    for step in commands:
        done = subprocess.run(
            [RABBITMQCTL, '--quiet', *step.words], text=True,
            input=f'{step.stdin}\n' if step.stdin is not None else '',
            capture_output=True)
        text = (done.stderr or done.stdout).strip()
        if done.returncode and not any(word in text for word in ignored):
            raise command.NotDone(
                f'--apply: {RABBITMQCTL} {step.words[0]} failed: {text}')


class Create(command.Command):
    """Register an LB node, and make its user and virtual host.

    Nothing else than what is registered is served by the controllers. A
    node that is registered already gets a new password.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        add_arguments(parser)
        parser.add_argument(
            '--nat-pool', action='append', metavar='CIDR', default=[],
            help='one of its [nat] pools, of a node that is new; may be '
                 'given again')
        return parser

    def take_action(self, arguments):
        host = checked(arguments.host)
        if not self.conf.nodes.transport_url:
            raise command.NotDone(
                '[nodes] transport_url is not set: without it the '
                'controllers do not know where the nodes are served')
        try:
            is_new = self.store().register_node(host, arguments.nat_pool)
        except errors.Refused as error:
            raise command.NotDone(str(error)) from error
        password = broker.new_password()
        carry_out(self.app, arguments, broker.commands(
            broker.for_node(host, password), again=not is_new),
            ('already exists',))
        url = broker.node_transport_url(self.conf.nodes.transport_url, host,
                                        password)
        self.app.stdout.write(
            'Configuration of the node, readable by its agent alone:\n'
            '  [DEFAULT]\n'
            f'  host = {host}\n'
            f'  transport_url = {url}\n')


class Delete(command.Command):
    """Forget an LB node that will never come back.

    Its load balancers are placed on others, and its credentials end. One that
    is alive and has flows by NAT, which no other node has, is not forgotten
    without --now.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        add_arguments(parser)
        parser.add_argument('--now', action='store_true',
                            help='also if flows by NAT break by it')
        return parser

    def take_action(self, arguments):
        host = checked(arguments.host)
        store = self.store()
        if not arguments.now:
            self._check_flows(store, host)
        if not store.remove_node(host):
            raise command.NotDone(f'node {host} is unknown')
        carry_out(self.app, arguments,
                   broker.commands_to_remove(broker.node_vhost(host)),
                   ('does not exist', 'no_such'))

    def _check_flows(self, store, host):
        timeout_s, now = self.conf.placement.node_timeout, store.now()
        for node in store.nodes():
            flows = node_state.nat_flows(node.state or {})
            if (node.host == host and flows
                    and node_api.alive(node, timeout_s, now)):
                raise command.NotDone(
                    f'node {host} is alive and has {flows} flows by NAT, '
                    'which no other node has: they would break. Use "node '
                    f'drain --wait {host}" first, or --now')


class Control(command.Command):
    """Print what makes the users of driver and controllers.

    With --definitions: a file that RabbitMQ loads instead of commands.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--definitions', action='store_true',
            help='print RabbitMQ definitions (JSON) instead of commands')
        parser.add_argument('--apply', action='store_true',
                            help=f'run {RABBITMQCTL} here')
        return parser

    def take_action(self, arguments):
        passwords = broker.new_password(), broker.new_password()
        grants = broker.for_control(*passwords)
        if arguments.definitions:
            self.app.stdout.write(
                json.dumps(broker.definitions(grants), indent=2) + '\n')
        else:
            carry_out(self.app, arguments, broker.commands(grants),
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

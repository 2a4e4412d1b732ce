# SPDX-License-Identifier: Apache-2.0
"""The command that registers the public key of a proxy node."""

import argparse

from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import names
from octavia_xdp_provider.manage import nodes


def check(key: str) -> None:
    """:raises CommandError: the text is no public key."""
    try:
        sealing.check_public_key(key)
    except sealing.SealError as error:
        raise command.CommandError(
            f'{error}: use the one that "octavia-xdp-proxy-agent '
            '--public-key" prints on the node') from error


def register(store: queries.Store, host: str, key: str | None) -> bool:
    """Register a checked key; None removes it.

    :returns: False if the node is unknown.
    :raises Refused: it is an LB node.
    """
    return store.nodes.set_public_key(host, key)


class Register(names.HostArgument, command.Command):
    """Register the public key of a proxy node; without KEY, remove it.

    Certificates and private keys of the load balancers on the node are sent to
    it encrypted for this key. Without a registered key it gets none. What the
    node reports about itself does not matter.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'key', nargs='?', metavar='KEY',
            help='what "octavia-xdp-proxy-agent --public-key" prints on the '
                 'node')
        return parser

    def take_action(self, arguments: argparse.Namespace) -> None:
        if arguments.key is not None:
            check(arguments.key)
        try:
            is_known = register(self.store(), arguments.host, arguments.key)
        except errors.Refused as error:
            raise command.CommandError(str(error)) from error
        if not is_known:
            raise nodes.unknown(arguments.host)

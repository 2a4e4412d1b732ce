# SPDX-License-Identifier: Apache-2.0
"""``openstack loadbalancer …`` without a cloud: the client's own commands
against an API of this process."""

import importlib.metadata
import types
from unittest import mock

from octaviaclient.api.v2 import octavia

_COMMANDS = {entry.name: entry for entry in importlib.metadata.entry_points(
    group='openstack.load_balancer.v2')}


def command_of(words):
    """The name of the command that words begin with, and the other words.

    :raises LookupError: there is no such command.
    """
    for length in range(len(words), 0, -1):
        name = '_'.join(words[:length]).replace('-', '_')
        if name in _COMMANDS:
            return name, words[length:]
    raise LookupError(' '.join(words))


class CommandLine:
    """The client, for somebody who may do anything."""

    def __init__(self, api):
        network = mock.Mock(subnets=api.neutron.subnets)
        self.octavia = octavia.OctaviaAPI(endpoint='http://octavia',
                                          session=api)
        self._app = types.SimpleNamespace(
            options=mock.Mock(), client_manager=types.SimpleNamespace(
                load_balancer=self.octavia, identity=mock.Mock(),
                sdk_connection=types.SimpleNamespace(network=network)))

    def run(self, *words):
        """Run a command, as ``loadbalancer``, ``list``.

        :returns: what its parser has made of the words.
        """
        name, words = command_of(words)
        command = _COMMANDS[name].load()(self._app, None)
        arguments = command.get_parser(name).parse_args(words)
        command.take_action(arguments)
        return arguments

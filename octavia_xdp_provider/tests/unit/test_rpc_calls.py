# SPDX-License-Identifier: Apache-2.0
"""Both ends of the RPC interfaces have the same methods and arguments."""

import inspect
from unittest import mock

from octavia_xdp_provider.agent import service
from octavia_xdp_provider.contracts import host_rpc
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.controller import driver_api
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import secrets_api
from octavia_xdp_provider.host import service as host_service
from octavia_xdp_provider.tests.unit import base

ENDS = (
    (rpc.DriverClient, driver_api.DriverEndpoint),
    (rpc.NodesClient, node_api.NodesEndpoint),
    (rpc.SecretsClient, secrets_api.SecretsEndpoint),
    (rpc.HeartbeatClient, node_api.HeartbeatEndpoint),
    (rpc.WakeupClient, service.WakeupEndpoint),
    (host_rpc.HostsClient, host_api.HostsEndpoint),
    (host_rpc.WakeupClient, host_service.WakeupEndpoint),
)


class Recorder:
    """An RPC client that remembers what it was asked to send."""

    def __init__(self):
        self.sent = []

    def prepare(self, **_options):
        return self

    def call(self, _context, method, **arguments):
        self.sent.append((method, arguments))
        return mock.MagicMock()

    cast = call


def methods(kind):
    return {name: method for name, method
            in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith('_')}


def sent_by(client):
    """Return a client's target, and the calls that its methods send."""
    recorder = Recorder()
    with mock.patch.object(rpc.oslo_messaging, 'get_rpc_client',
                           return_value=recorder) as made:
        caller = client(mock.sentinel.transport)
    for name, method in methods(client).items():
        needed = [parameter for parameter
                  in inspect.signature(method).parameters if
                  parameter != 'self']
        getattr(caller, name)(*(mock.MagicMock() for _ in needed))
    return made.call_args.args[1], recorder.sent


class TestEnds(base.TestCase):

    def test_each_call_is_a_method_of_the_other_end_and_the_reverse(self):
        for client, endpoint in ENDS:
            with self.subTest(client.__name__):
                _target, sent = sent_by(client)
                self.assertEqual(methods(endpoint).keys(),
                                 {method for method, _arguments in sent})
                for method, arguments in sent:
                    # A TypeError names the argument.
                    inspect.signature(getattr(endpoint, method)).bind(
                        'self', 'context', **arguments)

    def test_both_ends_have_the_same_interface_and_version(self):
        for client, endpoint in ENDS:
            with self.subTest(client.__name__):
                target, _sent = sent_by(client)
                self.assertEqual(
                    (target.namespace, target.version),
                    (endpoint.target.namespace, endpoint.target.version))

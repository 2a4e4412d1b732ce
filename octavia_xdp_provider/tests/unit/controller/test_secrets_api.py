# SPDX-License-Identifier: Apache-2.0
"""Secrets that a proxy node receives."""

from unittest import mock

import prometheus_client

from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.bundles import storage
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.controller import bounded_calls
from octavia_xdp_provider.controller import metrics
from octavia_xdp_provider.controller import node_api
from octavia_xdp_provider.controller import node_servers
from octavia_xdp_provider.controller import secrets_api
from octavia_xdp_provider.proxy.secrets import held
from octavia_xdp_provider.tests.unit.controller import keeping
from octavia_xdp_provider.tests.unit.controller import requesting

LB = keeping.LB


class TestSecrets(keeping.BundlesTestCase):

    def setUp(self):
        super().setUp()
        self.node = sealing.KeyPair(b'n' * 32)
        self.api = secrets_api.SecretsEndpoint(self.store, self.vault)
        self.create()
        self.made = keeping.certificate()
        self.do(self.listener('create', self.made))
        self.name = self.made.name(LB)

    def bundles(self, *names, host='proxy'):
        answer = self.api.bundles(None, host, list(names or [self.name]))
        shape.Shape(messages.BundlesAnswer).check(answer)
        return answer

    def tickets(self, host='proxy', ids=(LB,)):
        answer = self.api.tickets(None, host, list(ids))
        shape.Shape(messages.TicketsAnswer).check(answer)
        return answer

    def test_node_alone_opens_what_is_sealed_for_its_registered_key(self):
        self.place_on_proxy(self.node.public)
        answer = self.bundles()
        self.assertIsNone(answer['problem'])
        self.assertEqual(self.made, self.node.open(
            answer['bundles'][self.name], LB, self.name))
        self.assertRaises(sealing.SealError, self.pair.open,
                          answer['bundles'][self.name], LB, self.name)

    def test_node_without_a_registered_key_is_told_so_and_gets_nothing(self):
        self.place_on_proxy()
        for answer in self.bundles(), self.tickets():
            self.assertIn('no public key of this node', answer['problem'])
            self.assertFalse(answer.get('bundles') or answer.get('tickets'))

    def test_load_balancers_of_other_nodes_are_left_out(self):
        self.store.nodes.set_public_key('proxy', self.node.public)
        self.assertEqual({'bundles': {}, 'problem': None}, self.bundles())
        self.assertEqual({'tickets': {}, 'problem': None}, self.tickets())
        self.place_on_proxy(self.node.public)
        self.store.placements.place(LB, remove=['proxy'])
        self.assertEqual({'bundles': {}, 'problem': None}, self.bundles())

    def test_lb_node_gets_nothing_though_the_load_balancer_is_on_it(self):
        self.store.nodes.register('lb-node')
        self.store.placements.place(LB, add=['lb-node'])
        answer = self.bundles(host='lb-node')
        self.assertEqual({}, answer['bundles'])
        self.assertIn('not registered as a proxy', answer['problem'])

    def test_what_fits_into_no_message_is_asked_for_again(self):
        self.place_on_proxy(self.node.public)
        other = keeping.certificate('rsa')
        self.do(self.listener('update', self.made, sni_bundles=[
            other.name(LB)], **{}) | {
                'bundles': self.sealed(self.made, other)})
        names = sorted([self.name, other.name(LB)])
        self.assertEqual(names, sorted(self.bundles(*names)['bundles']))
        self.patch(sealed, 'MESSAGE_MAX', 10)
        self.assertEqual(names[:1], list(self.bundles(*names)['bundles']))

    def test_tickets_are_the_same_on_all_nodes_of_a_load_balancer(self):
        self.place_on_proxy(self.node.public)
        self.store.nodes.register('other', role='proxy',
                                  addresses=['198.51.100.8'])
        self.store.nodes.set_public_key('other', self.pair.public)
        self.store.placements.place(LB, add=['other'])
        opened = [pair.open(tickets['sealed'], LB, tickets['name'])
                  for pair, tickets in (
                      (self.node, self.tickets()['tickets'][LB]),
                      (self.pair, self.tickets('other')['tickets'][LB]))]
        self.assertEqual(opened[0], opened[1])

    def test_certificate_that_no_key_decrypts_harms_no_other(self):
        self.place_on_proxy(self.node.public)
        self.write_keys(storage.generate_key(), self.key)
        other = keeping.certificate('rsa')
        self.do(self.listener('update', self.made, sni_bundles=[
            other.name(LB)]) | {'bundles': self.sealed(other)})
        self.write_keys((self.folder / 'keys').read_text().split()[0])
        with self.assertLogs(secrets_api.LOG.logger.name) as logged:
            answer = self.bundles(self.name, other.name(LB))
        self.assertEqual([other.name(LB)], list(answer['bundles']))
        self.assertIn('cannot decrypt', answer['problem'])
        self.assertIn(self.name, logged.output[0])

    def test_deleted_load_balancer_yields_nothing(self):
        self.place_on_proxy(self.node.public)
        self.do(requesting.deleted(LB))
        self.assertEqual({}, self.bundles()['bundles'])
        self.assertEqual({}, self.tickets()['tickets'])


class TestServer(keeping.BundlesTestCase):

    def test_server_of_a_node_answers_both_interfaces(self):
        self.create()
        made = keeping.certificate()
        self.do(self.listener('create', made))
        node = sealing.KeyPair(b'n' * 32)
        self.place_on_proxy(node.public)
        transport = rpc.transport(
            self.load('[DEFAULT]\ntransport_url = fake://\n'))
        server = rpc.server(transport, rpc.CONTROLLER_TOPIC, 'controller', [
            node_servers.BoundEndpoint(
                'proxy', endpoint, bounded_calls.Complaints(),
                metrics.Metrics(prometheus_client.CollectorRegistry()))
            for endpoint in (
                node_api.NodesEndpoint(self.store, mock.Mock(), mock.Mock()),
                secrets_api.SecretsEndpoint(self.store, self.vault))])
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)
        secrets = held.Secrets('proxy', rpc.SecretsClient(transport), node,
                               lambda: None)
        names = frozenset([made.name(LB)])
        secrets.want({LB: names})
        secrets.fetch()
        self.assertEqual({f'{made.name(LB)}.pem', 'ticket-keys'},
                         set(secrets.files(LB, names)))
        self.assertEqual([LB], [entry['id'] for entry in rpc.NodesClient(
            transport).fetch('proxy', 0)['changed']])

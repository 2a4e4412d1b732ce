# SPDX-License-Identifier: Apache-2.0

import dataclasses
import hashlib
import re

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.agent import plans
from octavia_xdp_provider.proxy.agent import records
from octavia_xdp_provider.proxy.launcher import checks
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy.agent import node

BUNDLE = documents.bundle('bundle')


class TestPlans(base.TestCase):

    def setUp(self):
        super().setUp()
        self.secrets = node.Secrets()

    def plan(self, document, at=node.NODE, down=()):
        plans.check(document['id'], document)
        return plans.make(document, records.Record(70001, tuple(down)), at,
                          self.secrets)

    def tls(self, **more):
        self.secrets.contents = {f'{BUNDLE}.pem': b'secret',
                                 'ticket-keys': b'keys'}
        return node.document(protocol='TERMINATED_HTTPS',
                             default_tls_bundle=BUNDLE, **more)

    def test_launch_file_has_the_shape_of_the_contract(self):
        for document in node.document(), self.tls():
            launch = self.plan(document).launch
            proxy_launch.LAUNCH_SHAPE.check(launch)
            self.assertEqual(hashlib.sha256(self.plan(
                document).configuration).hexdigest(),
                launch['configuration_hash'])
            self.assertEqual((70001, 30, 1 << 26), tuple(launch[name] for name
                             in ('number', 'stop_after_s', 'memory_bytes')))

    def test_only_members_of_pools_in_use_can_be_reached(self):
        names = ('webs', 'off', 'unused')
        document = documents.document(
            {'web': documents.listener(
                {'to': documents.policy(
                    'REDIRECT_TO_POOL', {'r': documents.rule()},
                    redirect_pool_id=documents.uuid_of('off'))},
                default_pool_id=documents.uuid_of('webs'))},
            {name: documents.pool({
                f'{name} {last}': documents.member(
                    f'198.18.{place}.{last}', protocol_port=8000 + last,
                    admin_state_up=last == 1) for last in (1, 2)},
                admin_state_up=name != 'off')
             for place, name in enumerate(names)})
        self.assertEqual([
            {'address': '198.18.0.1', 'port': 8001},
            {'address': '198.18.0.2', 'port': 8002}],
            self.plan(document).launch['members'])

    def test_token_takes_the_place_of_a_members_address(self):
        token, tunnel = '100.64.0.1', {
            'address': '198.18.20.1', 'encapsulation': 'geneve', 'key': 7}
        plan = self.plan(documents.web(members={
            'vm': documents.member('10.0.0.5', token=token, tunnel=tunnel),
            'host': documents.member('198.18.0.1')}))
        proxy_launch.LAUNCH_SHAPE.check(plan.launch)
        self.assertEqual([{'address': token, 'port': 80},
                          {'address': '198.18.0.1', 'port': 80}],
                         plan.launch['members'])
        self.assertEqual([{'address': token, 'member': '10.0.0.5',
                           'tunnel': tunnel}], plan.launch['tokens'])
        self.assertIn(b' 100.64.0.1:80 ', plan.configuration)
        self.assertNotIn(b'10.0.0.5', plan.configuration)

    def test_nothing_runs_without_a_listener_that_takes_connections(self):
        for document in (documents.document(),
                         node.document(admin_state_up=False),
                         {**node.document(), 'admin_state_up': False}):
            self.assertIsNone(self.plan(document))

    def test_connection_limit_is_divided_among_nodes(self):
        document = node.document(connection_limit=10)
        self.assertIn('maxconn 10\n', self.text(document))
        document['nodes'] = ['a', 'proxy1', 'z']
        # 10 = 4 + 3 + 3, and this one is the second.
        self.assertIn('maxconn 3\n', self.text(document))
        # It is not among them before it has reported the document.
        document['nodes'] = ['a', 'z']
        self.assertIn('maxconn 3\n', self.text(document))

    def test_change_of_a_limit_is_a_reload(self):
        """Nothing changes for which the launcher starts another process."""
        launches = [self.plan(node.document(connection_limit=limit)).launch
                    for limit in (None, 1, 10 ** 6)]
        self.assertEqual(1, len({str(checks.frame(launch))
                                 for launch in launches}))
        for limit, launch in zip((None, 1, 10 ** 6), launches, strict=True):
            text = self.text(node.document(connection_limit=limit))
            self.assertLessEqual(int(re.search(
                r'^ +maxconn (\d+)', text, re.MULTILINE)[1]),
                launch['connections'])

    def test_flavor_takes_the_place_of_options(self):
        """Values above those of the node are used as they are."""
        launch = self.plan({**node.document(), 'flavor': {
            'proxy_connections': 200, 'proxy_threads': 4,
            'proxy_memory': 128, 'proxy_stop_after': 60}})
        without = self.plan(node.document())
        self.assertEqual(100, launch.launch['connections']
                         - without.launch['connections'])
        self.assertEqual((4, 128 * 2 ** 20, 60), tuple(
            launch.launch[name]
            for name in ('threads', 'memory_bytes', 'stop_after_s')))
        text = launch.configuration.decode()
        for line in ('nbthread 4', 'hard-stop-after 60s', 'maxconn 200'):
            self.assertIn(f'{line}\n', text)
        partly = self.plan({**node.document(),
                            'flavor': {'proxy_threads': 2}}).launch
        self.assertEqual(
            {'threads'}, {name for name, value in partly.items()
                          if value != without.launch[name]}
            - {'configuration_hash'})

    def text(self, document):
        return self.plan(document).configuration.decode()

    def test_name_of_certificates_follows_from_their_content(self):
        first = self.plan(self.tls())
        name = first.launch['certificates']
        self.assertEqual(name, self.plan(self.tls()).launch['certificates'])
        self.assertIn(f'/own/certificates/{name}/', first.configuration
                      .decode())
        listed = documents.uuid_of('web') + '.crt-list'
        self.assertEqual({f'{BUNDLE}.pem', 'ticket-keys', listed},
                         set(first.certificates))
        document = self.tls()
        self.secrets.contents['ticket-keys'] = b'others'
        self.assertNotEqual(name, self.plan(document).launch['certificates'])
        # A list of certificates is a reason for another name too.
        other = documents.bundle('other')
        document = self.tls(sni_bundles=[other])
        self.assertNotEqual(name, self.plan(document).launch['certificates'])
        self.assertEqual({BUNDLE, other}, self.secrets.asked[-1])

    def test_no_secret_is_asked_for_without_tls(self):
        self.plan(node.document())
        self.assertEqual([], self.secrets.asked)

    def test_missing_secret_is_no_plan(self):
        document = self.tls()
        self.secrets.contents = None
        self.assertRaises(parts.Missing, self.plan, document)

    def test_document_of_another_load_balancer_is_refused(self):
        self.assertRaises(errors.Refused, plans.check, node.SECOND,
                          node.document())

    def test_version_of_haproxy_matters(self):
        newer = dataclasses.replace(node.NODE, haproxy=(2, 8))
        self.assertNotEqual(
            self.plan(self.tls()).configuration,
            self.plan(self.tls(), newer).configuration)

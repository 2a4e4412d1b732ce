# SPDX-License-Identifier: Apache-2.0
"""Files at each instant at which an agent may be killed."""

import os
from unittest import mock

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.proxy.agent import orders
from octavia_xdp_provider.proxy.launcher import orders as launcher_orders
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit.proxy.agent import node

FIRST = node.FIRST
BUNDLE = documents.bundle('bundle')


class Killed(BaseException):
    pass


class TestOrders(node.NodeTestCase):

    def setUp(self):
        super().setUp()
        self.secrets.contents = {f'{BUNDLE}.pem': b'one'}

    def document(self, **more):
        return node.document(protocol='TERMINATED_HTTPS',
                             default_tls_bundle=BUNDLE, **more)

    def read(self):
        """Read what is there as the launcher does."""
        return launcher_orders.read(self.files.orders, FIRST, node.NUMBERS)

    def assert_whole(self):
        """The launcher can take everything that a launch file names."""
        launch = self.read().launch
        launcher_orders.configuration(self.files.orders, FIRST,
                                      launch['configuration_hash'])
        return launcher_orders.certificates(self.files.secrets, FIRST,
                                            launch['certificates'])

    def test_launcher_reads_what_is_written(self):
        self.run_pass(self.document())
        contents = self.assert_whole()
        self.assertEqual(b'one', contents[f'{BUNDLE}.pem'])
        self.assertIn(documents.uuid_of('web') + '.crt-list', contents)

    def test_secrets_are_the_agents_alone(self):
        self.run_pass(self.document())
        for directory, folders, names in os.walk(self.files.secrets):
            for name in [*folders, *names]:
                status = os.stat(os.path.join(directory, name))
                self.assertEqual(0, status.st_mode & 0o077)

    def test_directory_of_certificates_is_replaced_with_its_configuration(
            self):
        self.run_pass(self.document())
        first = self.launch()['certificates']
        self.secrets.contents = {f'{BUNDLE}.pem': b'two'}
        # A secret changes with its hash, and so with a document.
        self.run_pass(self.document(connection_limit=7))
        second = self.launch()['certificates']
        self.assertNotEqual(first, second)
        self.assertEqual([second], os.listdir(
            os.path.join(self.files.secrets, FIRST)))
        self.assertEqual(b'two', self.assert_whole()[f'{BUNDLE}.pem'])
        self.run_pass()
        self.assertEqual([], os.listdir(self.files.secrets))

    def test_agent_may_be_killed_before_each_rename(self):
        self.run_pass(self.document())
        killed = []
        for before in range(5):
            self.secrets.contents = {f'{BUNDLE}.pem': bytes([before])}
            document = self.document(connection_limit=10 + before)
            killed.append(self.is_killed(before, document))
            # At each instant there is a launch file. If the configuration is
            # not its own, the launcher waits.
            if self.configuration_fits(self.read().launch):
                self.assert_whole()
            self.restart()
            self.run_pass(document)
            self.assertIn(f'maxconn {10 + before}\n', self.configuration())
            self.assertEqual(bytes([before]),
                             self.assert_whole()[f'{BUNDLE}.pem'])
        # Certificates, configuration, launch file.
        self.assertEqual([True, True, True, False, False], killed)

    def configuration_fits(self, launch):
        try:
            launcher_orders.configuration(self.files.orders, FIRST,
                                          launch['configuration_hash'])
        except launcher_orders.NotWhole:
            return False
        return True

    def is_killed(self, count, document):
        """Run a pass that is killed after so many renames; return whether
        it was."""
        left = [count]

        def guard(function):
            def called(*arguments, **more):
                if not left[0]:
                    raise Killed
                left[0] -= 1
                return function(*arguments, **more)
            return called
        with mock.patch.object(os, 'replace', guard(os.replace)), (
                mock.patch.object(orders.pathlib.Path, 'rename', guard(
                    lambda path, target: os.rename(path, target)))):
            try:
                self.run_pass(document)
            except Killed:
                return True
        return False

    def test_leftovers_are_no_load_balancers(self):
        self.run_pass(self.document())
        for top in self.files.orders, self.files.secrets:
            os.mkdir(os.path.join(top, f'.{FIRST}'))
        self.restart()
        for top in self.files.orders, self.files.secrets:
            self.assertEqual([FIRST], os.listdir(top))

    def test_numbers_are_those_of_launch_files(self):
        self.run_pass(self.document())
        broken = os.path.join(self.files.orders, node.SECOND)
        os.mkdir(broken)
        with open(os.path.join(broken, proxy_launch.LAUNCH), 'w') as file:
            file.write('[]')
        self.assertEqual({FIRST: self.launch()['number']},
                         orders.Orders(self.files).numbers())

# SPDX-License-Identifier: Apache-2.0
"""The page of what is supported has each operation and kind of object."""

import inspect
import re

from octavia_lib.api.drivers import provider_base

from octavia_xdp_provider.driver import provider
from octavia_xdp_provider.driver import support
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents

DRIVER = provider.XdpProviderDriver


class TestOperations(base.TestCase):

    def setUp(self):
        super().setUp()
        self.operations = documents.extension('operations')

    def rows(self, support):
        return [row for row in self.operations.ROWS if row.support == support]

    def test_each_method_of_the_interface_is_in_one_row(self):
        methods = {name for name, _function in inspect.getmembers(
            provider_base.ProviderDriver, inspect.isfunction)
            if not name.startswith('_')}
        named = [name for row in self.operations.ROWS for name in row.methods]
        self.assertEqual(sorted(methods), sorted(named))

    def test_refusals_say_what_to_do_instead(self):
        refused = self.rows(self.operations.REFUSED)
        self.assertTrue(refused)
        for row in refused:
            for method in row.methods:
                self.assertEqual(row.text(), self.operations.refusal(method))

    def test_supported_operations_are_implemented(self):
        for row in self.rows(self.operations.DONE):
            for method in row.methods:
                self.assertIn(method, vars(DRIVER))

    def test_each_kind_of_object_is_there(self):
        self.assertLessEqual(
            {'Load balancer', 'Listener', 'Pool', 'Member', 'Health monitor',
             'L7 policy', 'L7 rule', 'Quota', 'Flavor', 'Flavor profile',
             'Availability zone', 'Availability zone profile'},
            {row.kind for row in self.operations.ROWS})


class TestPage(base.TestCase):

    def test_each_rule_has_a_text(self):
        table = documents.extension('support_table')
        for rules in support.SUPPORT.values():
            for rule in rules.values():
                self.assertTrue(table._word(rule))
                if getattr(rule, 'check', None) or isinstance(
                        rule, support.Refuse):
                    self.assertTrue(table._note(rule))

    def test_tiers_are_those_that_contracts_say(self):
        table = documents.extension('support_table')
        by_proxies = [case for case in table.CASES
                      if table.served(case)[0] == 'proxy nodes']
        self.assertTrue(any(case.listener.get('protocol') == 'HTTP'
                            for case in by_proxies))
        for case in table.CASES:
            forwarding = case.flavor.get('forwarding')
            if forwarding:
                self.assertEqual(forwarding == 'proxy', case in by_proxies)

    def test_page_has_a_table_for_each_kind(self):
        text = (documents.SOURCE / 'user/support.rst').read_text()
        self.assertEqual(set(support.SUPPORT), set(
            re.findall(r'^\.\. xdp-support:: (\w+)$', text, re.MULTILINE)))
        for directive in ('operations', 'tiers', 'flavor-keys', 'zone-keys'):
            self.assertIn(f'\n.. xdp-{directive}::\n', text)

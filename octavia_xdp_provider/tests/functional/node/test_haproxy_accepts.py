# SPDX-License-Identifier: Apache-2.0
"""Real HAProxys accept what is rendered, without a word."""

import fixtures
import hypothesis
from hypothesis import strategies as st
import testtools

from octavia_xdp_provider.api import l7
from octavia_xdp_provider.tests.functional.support import bundles
from octavia_xdp_provider.tests.functional.support import haproxy
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit.proxy import generated
from octavia_xdp_provider.tests.unit.proxy import hostile

PROGRAMS = [program for program in (haproxy.SYSTEM, haproxy.other_version())
            if program]


def some(strategy, number):
    """Return the same generated values each time."""
    values = []

    @hypothesis.settings(
        max_examples=number, derandomize=True, database=None, deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(strategy)
    def collect(value):
        values.append(value)

    collect()
    return values


class TestAccepted(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.secrets = {digit * 64: bundles.make(f'{digit}.example.com')
                        for digit in '0123'}

    def assert_accepted(self, document):
        for program in PROGRAMS:
            proxy = haproxy.Proxy(program, self.folder, document, self.secrets)
            try:
                self.assertEqual([], proxy.check(), (program, document))
            finally:
                proxy.close()

    def test_generated_load_balancers(self):
        for document in some(generated.documents(), 25):
            self.assert_accepted(document)

    def test_hostile_values_that_are_served(self):
        rules = {}
        for compare_type in ('EQUAL_TO', 'REGEX'):
            for value in some(hostile.VALUES, 400):
                rule = documents.rule(value=value, compare_type=compare_type)
                if l7.rule_problem(rule) is None:
                    rules[f'{compare_type} {value}'] = rule
        self.assertGreater(len(rules), 100)
        self.assert_accepted(documents.web({
            f'policy {name}': documents.policy(rules={name: rule})
            for name, rule in rules.items()}))

    def test_expressions_that_are_refused_are_those_that_haproxy_refuses(self):
        document = documents.web({'p': documents.policy(rules={
            'r': documents.rule(compare_type='REGEX')})})
        rule, = [rule for listener in document['listeners'].values()
                 for policy in listener['l7policies'].values()
                 for rule in policy['rules'].values()]
        texts = st.text('()[]{}?*+\\|^$.-:<>=!PagkNx1,', min_size=1,
                        max_size=6)
        for value in some(texts, 60):
            rule['value'] = value
            proxy = haproxy.Proxy(haproxy.SYSTEM, self.folder, document)
            accepted = not proxy.check()
            proxy.close()
            self.assertEqual(accepted, l7.regex_problem(value) is None, value)

# SPDX-License-Identifier: Apache-2.0
"""A user's value is refused, or is one word of the configuration."""

import hypothesis

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.proxy.render import load_balancer
from octavia_xdp_provider.tests.support import haproxy_words
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy import hostile
from octavia_xdp_provider.tests.unit.proxy import octavia_process

SETTINGS = documents.render_settings()


def parsed(document):
    proxied.check(document)
    return haproxy_words.sections(load_balancer.render(document,
                                                       SETTINGS).text)


def replaced(sections, tame, value):
    """Return sections with another value in the place of a tame one."""
    return {name: [[value if word == tame else word.replace(
        f'({tame})', f'({value})') for word in words] for words in lines]
        for name, lines in sections.items()}


class TestHostileValues(base.TestCase):

    def serves_some(self, tame, build):
        """Check a field; return whether some hostile value was served."""
        expected = parsed(build(tame))
        served = []

        def check(value):
            try:
                rendered = parsed(build(value))
            except errors.Refused as error:
                self.assertTrue(error.instead)
                return
            self.assertEqual(replaced(expected, tame, value), rendered)
            served.append(value)

        for fragment in hostile.FRAGMENTS:
            for value in (fragment, f'{tame}{fragment}', f'{tame}{fragment}x'):
                check(value)
        hypothesis.settings(
            deadline=None, max_examples=50, derandomize=True, database=None,
            suppress_health_check=list(hypothesis.HealthCheck))(
                hypothesis.given(hostile.VALUES)(lambda value: check(value)))()
        return bool(served)

    def test_each_value_is_refused_or_one_word(self):
        for name, (tame, build) in hostile.FIELDS.items():
            served = self.serves_some(tame, build)
            # Else the test would pass if all were refused.
            if name.endswith(('EQUAL_TO', 'REGEX')):
                self.assertTrue(served, name)

    def test_octavias_renderer_changes_what_ours_keeps(self):
        url = 'https://example.com/new?a=1&b=2'
        document = hostile.redirect('REDIRECT_TO_URL', 'redirect_url')(url)
        self.assertIn('a=1&amp;b=2', octavia_process.render(document,
                                                         SETTINGS.bundle))
        self.assertIn([url], [
            words[4:5] for lines in parsed(document).values()
            for words in lines if words[0] == 'redirect'])
        injected = hostile.rule('PATH', 'REGEX')('x\n\thttp-request return')
        self.assertIn('\n\thttp-request\\ return', octavia_process.render(
            injected, SETTINGS.bundle))
        self.assertRaises(errors.Refused, proxied.check, injected)

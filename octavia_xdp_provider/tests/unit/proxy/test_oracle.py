# SPDX-License-Identifier: Apache-2.0
"""Our configurations mean what Octavia's renderer for amphorae writes."""

import random

import hypothesis

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.proxy.render import load_balancer
from octavia_xdp_provider.tests.support import proxied as documents
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy import differences
from octavia_xdp_provider.tests.unit.proxy import generated
from octavia_xdp_provider.tests.unit.proxy import normal_form
from octavia_xdp_provider.tests.unit.proxy import octavia_process

# Octavia's default_connection_limit.
SETTINGS = documents.render_settings(connections=50000)


def both(document):
    """Return both configurations in their normal form."""
    proxied.check(document)
    ours = normal_form.parse(load_balancer.render(document, SETTINGS).text)
    octavias = normal_form.parse(octavia_process.render(document,
                                                     SETTINGS.bundle))
    used = {directive[1] for directives in octavias.values()
            for directive in directives
            if directive[0] in ('default_backend', 'use_backend')}
    # A pool that only policies without enabled rules name.
    octavias = {name: directives for name, directives in octavias.items()
                if name[0] != 'backend' or name[1] in used}
    for name in differences.SECTIONS:
        ours.pop(name, None)
        octavias.pop(name, None)
    return ours, octavias


def flat(sections):
    """Return comparable lines of all sections."""
    return [f'{" ".join(name)}: {line}'
            for name, directives in sorted(sections.items())
            for line in ['section', *ordered(directives)]]


def ordered(directives):
    """Return directives whose order has a meaning, and the others sorted."""
    sequence = [directive for directive in directives
                if directive[0] in ('redirect', 'use_backend')
                or directive[:2] == ('http-request', 'deny')]
    return [*map(str, sequence), *sorted(
        str(directive[:-1] + tuple(sorted(directive[-1].items()))
            if isinstance(directive[-1], dict) else directive)
        for directive in directives if directive not in sequence)]


def compared(document, but=None):
    """Return lines of both without the intended differences.

    :param but: one that is not applied.
    """
    return [flat(sections) for sections in differences.apply(
        *both(document), document, but)]


def shows(document, difference):
    """Return whether the configurations have this intended difference."""
    ours, octavias = compared(document, difference)
    return ours != octavias


def find(difference):
    """Return a document that shows the difference.

    :raises hypothesis.errors.NoSuchExample: none is found.
    """
    return hypothesis.find(
        generated.documents(),
        lambda document: shows(document, difference), random=random.Random(1),
        settings=hypothesis.settings(
            max_examples=2000, phases=[hypothesis.Phase.generate],
            database=None, deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck)))


class TestOracle(base.TestCase):

    def test_generated_load_balancers_mean_the_same(self):
        """They do, and each intended difference occurs: one that no load
        balancer shows is none."""
        missing = list(differences.DIFFERENCES)

        @hypothesis.settings(
            deadline=None, max_examples=200, derandomize=True, database=None,
            suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(generated.documents())
        def compare(document):
            ours, octavias = compared(document)
            self.assertEqual(octavias, ours)
            missing[:] = [difference for difference in missing
                          if not shows(document, difference)]

        compare()
        # The generated documents depend on the modules that are loaded.
        for difference in missing:
            find(difference)

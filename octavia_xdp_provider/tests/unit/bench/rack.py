# SPDX-License-Identifier: Apache-2.0
"""The bed of real machines that the documentation declares."""

import textwrap

import yaml

from bench.declarations import definitions
from octavia_xdp_provider.tests.unit import documents


def declaration():
    """The bed "one-node", with what the document has one add to it."""
    text = (documents.SOURCE / 'contributor/benchmarks/beds.rst').read_text()
    block = text.partition('what is there of this host::\n\n')[2].partition(
        '\n\n   The roles are those of')[0]
    added = yaml.safe_load(textwrap.dedent(block))
    bed = yaml.safe_load(
        definitions.find('beds', 'one-node').read_text())
    for name, host in added.pop('hosts').items():
        bed['hosts'][name] |= host
    return bed | added

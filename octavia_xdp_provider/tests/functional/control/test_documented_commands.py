# SPDX-License-Identifier: Apache-2.0
"""Commands of the documents do what they say, in Octavia's own API."""

import re

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.tests.functional.support import command_line
from octavia_xdp_provider.tests.functional.support import documented
from octavia_xdp_provider.tests.functional.support import own_process
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents

# Not imported, as it loads Octavia.
READER = 'octavia_xdp_provider.tests.functional.support.reader'


def advised(problem):
    """The values that an error of the driver names in their stead."""
    values = re.findall(r'(?:as|or|example) (\S+)', problem[1])
    assert values, problem
    return values


class TestCommands(base.TestCase):

    def test_commands_of_the_documents_are_accepted(self):
        pages = [str(page) for page in documented.pages()]
        self.assertIn(str(documented.FIRST), pages)
        refused = own_process.call(READER, 'read', pages)
        self.assertEqual({}, {
            page: wrong for page, wrong in refused.items() if wrong})

    def test_commands_that_are_named_in_a_text_are_there(self):
        for page in documents.pages():
            for words in documented.named_commands(page.read_text()):
                command_line.command_of(words)

    def test_a_command_that_is_refused_is_found(self):
        refused = own_process.call(READER, 'run', [
            'healthmonitor create --type HTTP --delay 5 --timeout 3 '
            '--max-retries 2 --expected-codes 200-204,301 web-pool',
            'pool create --protocol UDP --lb-algorithm SOURCE_IP '
            '--session-persistence type=SOURCE_IP,persistence_timeout=1 '
            '--loadbalancer web',
            'listener create --protocol TCP --protocol-port 0 web',
            'listener create --protocol TCP --protocol-port 80 web',
            'listener create --no-such-option web',
            'show no-such-name'])
        self.assertNotIn(None, refused)

    def test_what_the_driver_advises_is_accepted(self):
        refused = own_process.call(READER, 'run', [
            *(f'healthmonitor set --expected-codes {codes} MONITOR'
              for codes in advised(fields.codes_problem('none'))),
            'pool create --name udp --protocol UDP --lb-algorithm '
            'SOURCE_IP_PORT --loadbalancer web',
            *('pool set --session-persistence '
              f'type=SOURCE_IP,persistence_granularity={netmask} udp'
              for netmask in advised(fields.netmask_problem('none')))])
        self.assertEqual([None] * len(refused), refused)

# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl verify: every table computed again, and compared."""

from octavia_xdp_provider.common import stdout
from octavia_xdp_provider.ctl import output


def run(node, arguments):
    """0: all is right; 1: something differs."""
    faults = node.faults()
    count = node.info().services
    if arguments.json:
        stdout.say(output.dump({'services': count, 'faults': [
            {'vip': fault.key.address if fault.key else None,
             'protocol': fault.key.protocol if fault.key else None,
             'port': fault.key.port if fault.key else None,
             'fault': fault.text} for fault in faults]}))
    elif faults:
        stdout.say(output.table(
            ('VIP', 'PROTOCOL', 'PORT', 'FAULT'),
            [(*(fault.key or ('(node)', None, None)), fault.text)
             for fault in faults]))
    else:
        stdout.say(f'{count} services: all tables are what their members and '
              'weights make of them')
    return 1 if faults else 0

# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl verify: recompute every table and compare.

It also reports processes that no longer update the tables, because correct
tables do not help then.
"""

import argparse

from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.ctl import processes
from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.process import stdout


def run(node: inspection.Inspection, arguments: argparse.Namespace) -> int:
    """Return 0 if all tables are correct, 1 if any differs."""
    faults = node.faults()
    count = node.info().services
    silent = processes.problems(processes.files_of(arguments))
    if arguments.json:
        stdout.say(output.dump({'services': count, 'faults': [
            {'vip': fault.key.address if fault.key else None,
             'protocol': fault.key.protocol if fault.key else None,
             'port': fault.key.port if fault.key else None,
             'fault': fault.text} for fault in faults],
            'processes': silent}))
    elif faults:
        stdout.say(output.table(
            ('VIP', 'PROTOCOL', 'PORT', 'FAULT'),
            [(*(fault.key or ('(node)', None, None)), fault.text)
             for fault in faults]))
    else:
        stdout.say(f'{count} services: all tables are what their members and '
                   'weights make of them')
    if silent and not arguments.json:
        stdout.say('\n'.join(silent))
    return 1 if faults else 0

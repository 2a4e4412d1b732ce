# SPDX-License-Identifier: Apache-2.0
"""Tables of operating statuses, from the controller's own rules.

``.. xdp-statuses:: pool`` renders a table of ``controller/status.py``.
"""

import support_table

from octavia_xdp_provider.controller import status


class StatusTable(support_table.Table):
    """Rules of one kind of object; the first one that holds decides."""

    required_arguments = 1

    def run(self):
        kind = self.arguments[0]
        rules = status.TABLES[kind]
        head = 'Node' if kind == 'node' else 'Operating status'
        return self.table(
            ('The first that holds', head, 'Remark'), (45, 20, 35),
            [(rule.when, rule.status or f'that of its {rule.below}',
              rule.remark) for rule in rules])


def setup(app):
    app.add_directive('xdp-statuses', StatusTable)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}

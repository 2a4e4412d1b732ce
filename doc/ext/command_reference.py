# SPDX-License-Identifier: Apache-2.0
"""Options of commands, from the commands themselves.

``.. xdp-command:: octavia-xdp-ctl`` renders a program in Python,
``.. xdp-member-usage:: synopsis`` and ``… options`` the one in C.
"""

import command_text
import member_text
from sphinx.util import docutils


class Command(docutils.SphinxDirective):
    """Usage and options of a program."""

    required_arguments = 1

    def run(self):
        return self.parse_text_to_nodes(
            '\n'.join(command_text.lines(self.arguments[0])),
            allow_section_headings=True)


class MemberUsage(docutils.SphinxDirective):
    """Synopsis or options of octavia-xdp-member."""

    required_arguments = 1

    def run(self):
        lines = {'synopsis': member_text.synopsis_lines,
                 'options': member_text.option_lines}
        self.env.note_dependency(str(member_text.USAGE))
        return self.parse_text_to_nodes(
            '\n'.join(lines[self.arguments[0]]()))


def setup(app):
    app.add_directive('xdp-command', Command)
    app.add_directive('xdp-member-usage', MemberUsage)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}

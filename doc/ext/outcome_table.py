# SPDX-License-Identifier: Apache-2.0
"""Tables of outcomes, from ``contracts/enumerations.h``.

``.. xdp-outcomes::`` renders what is counted of packets to a VIP,
``.. xdp-probe-outcomes::`` what is counted of packets with a mark,
``.. xdp-host-outcomes::`` what is counted of packets on a hypervisor.
"""

from docutils import nodes
from docutils import statemachine
from docutils.parsers.rst import Directive

from octavia_xdp_provider.contracts import enumerations


class _OutcomeTable(Directive):
    """A row for each outcome: its name as it is shown, and its text."""

    def entries(self):
        raise NotImplementedError

    def run(self):
        lines = ['.. list-table::', '   :header-rows: 1', '   :widths: 25 75',
                 '', '   * - Outcome', f'     - {self.packets}']
        for entry in self.entries():
            lines += [f'   * - ``{entry.name.lower()}``',
                      f'     - {entry.text}']
        source = self.state.document.current_source
        content = statemachine.StringList(lines, source=source)
        parent = nodes.Element()
        self.state.nested_parse(content, self.content_offset, parent)
        return parent.children


class Outcomes(_OutcomeTable):
    packets = 'Packets to a VIP'

    def entries(self):
        return [entry for entry in enumerations.CONTRACT[enumerations.OUTCOME]
                if entry.word != 'uncounted']


class ProbeOutcomes(_OutcomeTable):
    packets = 'Packets with a mark of ours'

    def entries(self):
        return enumerations.CONTRACT[enumerations.PROBE_OUTCOME]


class HostOutcomes(_OutcomeTable):
    packets = 'Packets on a hypervisor'

    def entries(self):
        return [entry for entry
                in enumerations.CONTRACT[enumerations.HOST_OUTCOME]
                if entry.word != 'uncounted']


def setup(app):
    app.add_directive('xdp-outcomes', Outcomes)
    app.add_directive('xdp-probe-outcomes', ProbeOutcomes)
    app.add_directive('xdp-host-outcomes', HostOutcomes)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}

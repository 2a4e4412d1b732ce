# SPDX-License-Identifier: Apache-2.0
"""The documents' diagrams: each is shown, described, and names what is."""

import re

from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents

DIRECTIVE = re.compile(
    r'^\.\. graphviz:: (\S+)\n((?:   .*\n)*)', re.MULTILINE)


def shown():
    """(page, path of a diagram, options) of each in the documents."""
    for page in documents.pages():
        for path, given in DIRECTIVE.findall(page.read_text()):
            yield page, (page.parent / path).resolve(), given


def text_of(name):
    return (documents.SOURCE / 'contributor/pictures' / name).read_text()


def source_of(path):
    return (documents.ROOT / path).read_text()


class TestDiagrams(base.TestCase):

    def test_each_diagram_is_shown_by_a_page(self):
        self.assertEqual(sorted(documents.SOURCE.rglob('*.dot')),
                         sorted(path for _, path, _ in shown()))

    def test_each_has_a_description_and_a_caption(self):
        self.assertEqual([], [
            str(path) for _, path, given in shown()
            if ':alt: ' not in given or ':caption: ' not in given])

    def test_parts_of_a_block_are_those_of_the_layout(self):
        layout = source_of('datapath/include/layout.h')
        names = re.findall(r'<font face="monospace">(\w+)</font>',
                           text_of('block.dot'))
        self.assertIn('heads', names)
        for name in names:
            self.assertRegex(layout, rf'\b{name}\b')

    def test_outcomes_of_a_packet_are_there(self):
        outcomes = re.findall(r'OXP_OUTCOME\((?:DROP_)?(\w+),', source_of(
            'octavia_xdp_provider/contracts/enumerations.h'))
        named = set(re.findall(r'\b[A-Z]+(?:_[A-Z]+)+\b|\b(?:PASS|RATE|'
                               r'MARTIAN)\b', text_of('packet.dot')))
        self.assertIn('NO_MEMBER', named)
        self.assertEqual(set(), named - set(outcomes))

    def test_programs_of_a_hypervisor_are_all_there(self):
        programs = re.findall(r'^int (oxp_host_\w+)\(', source_of(
            'datapath/bpf/host/host.bpf.c'), re.MULTILINE)
        named = re.findall(r'(?:\\n|\b)(oxp_host_\w+)',
                           text_of('hypervisor.dot'))
        self.assertEqual(sorted(programs), sorted(named))


class TestGraphviz(base.TestCase):
    """A build without Graphviz says what to install."""

    def test_pages_without_the_program_name_the_package(self):
        missing = documents.extension('diagrams').missing
        text = missing('html', 'no-such-program')
        self.assertIn('no-such-program', text)
        self.assertIn("Debian's package graphviz", text)
        self.assertIsNone(missing('man', 'no-such-program'))
        self.assertIsNone(missing('html', 'sh'))

# SPDX-License-Identifier: Apache-2.0
"""Numbers that stand in several languages, because no file reaches all."""

import pathlib
import re

import octavia_xdp_provider
from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.ctl import frame
from octavia_xdp_provider.tests.models.packet_model import encap
from octavia_xdp_provider.tests.unit import base

PACKAGE = pathlib.Path(octavia_xdp_provider.__file__).parent
ROOT = PACKAGE.parent


def defined(path, name):
    """Return a C file's decimal definitions of a name: one is expected."""
    return [int(number) for number in re.findall(
        rf'^#define {name} ([0-9]+)\b', path.read_text(), re.MULTILINE)]


class TestNumbers(base.TestCase):

    def test_nodes_members_and_tools_agree_on_ports_of_encapsulations(self):
        ports = {name: number for name, number in vars(encap).items()
                 if name.endswith('_PORT')}
        self.assertIn('GUE_PORT', ports)
        for path, prefix in (
                (ROOT / 'datapath/include/octavia_xdp.h', 'OXP_'),
                (ROOT / 'datapath/include/member.h', 'MEMBER_'),
                (PACKAGE / 'drops/drops.bpf.c', '')):
            for name, number in ports.items():
                self.assertEqual([number], defined(path, prefix + name), path)
        self.assertEqual(ports, {name: getattr(frame, name)
                                 for name in ports})
        self.assertEqual(set(ports.values()), set(encap.UDP_PORTS))

    def test_members_take_off_each_outer_header(self):
        text = (ROOT / 'datapath/include/member.h').read_text()
        self.assertEqual([], [
            name for name in enumerations.ENCAPSULATIONS
            # SRv6 is IPIP to a SID
            if name != 'srv6' and f'"taken_{name}"' not in text])

    def test_each_encapsulation_is_measured(self):
        cases = (ROOT / 'datapath/bench/packets.c').read_text()
        self.assertEqual([], [
            kind.name for kind in enumerations.Encapsulation
            # the one of services that name none
            if kind and not re.search(rf'\bOXP_{kind.name}\b', cases)])

    def test_nodes_and_members_agree_on_the_longest_outer_header(self):
        for path, name in (('bpf/outer.h', 'SHIM_MAX'),
                           ('include/member.h', 'MEMBER_SHIM_MAX')):
            self.assertEqual([max(encap.SHIM.values())],
                             defined(ROOT / 'datapath' / path, name), path)

# SPDX-License-Identifier: Apache-2.0
"""Numbers that stand in several languages, because no file reaches all."""

import pathlib
import re

import octavia_xdp_provider
from octavia_xdp_provider.packet_model import encap
from octavia_xdp_provider.tests.unit import base

PACKAGE = pathlib.Path(octavia_xdp_provider.__file__).parent
ROOT = PACKAGE.parent


def defined(path, name):
    """What a C file defines as a decimal number."""
    text = path.read_text()
    [number] = re.findall(rf'^#define {name} ([0-9]+)\b', text, re.MULTILINE)
    return int(number)


class TestNumbers(base.TestCase):

    def test_nodes_members_and_tools_agree_on_the_port_of_gue(self):
        datapath = ROOT / 'datapath'
        for path, name in (
                (datapath / 'include/octavia_xdp.h', 'OXP_GUE_PORT'),
                (datapath / 'include/member.h', 'MEMBER_GUE_PORT'),
                (PACKAGE / 'drops/drops.bpf.c', 'GUE_PORT')):
            self.assertEqual(encap.GUE_PORT, defined(path, name), path)

    def test_nodes_and_members_agree_on_the_longest_outer_header(self):
        for path, name in (('bpf/outer.h', 'SHIM_MAX'),
                           ('include/member.h', 'MEMBER_SHIM_MAX')):
            self.assertEqual(max(encap.SHIM.values()),
                             defined(ROOT / 'datapath' / path, name), path)

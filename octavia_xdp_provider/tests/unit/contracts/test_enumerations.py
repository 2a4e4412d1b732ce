# SPDX-License-Identifier: Apache-2.0
"""The lists that C and Python share, and what is refused in their file."""

import enum
import pickle

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.contracts import flavor
from octavia_xdp_provider.node import types
from octavia_xdp_provider.tests.models.packet_model import state
from octavia_xdp_provider.tests.unit import base

LISTS = '''/* Two
 * lines */
#ifndef OXP_OUTCOME
#define OXP_OUTCOME(name, number, kind, text)
#endif
OXP_OUTCOME(PASS, 0, uncounted, "left alone")
OXP_OUTCOME(DROP_RATE, 1, dropped,
            "opens (flows), "
            "too fast")
OXP_PROBE_OUTCOME(SENT, 0, "sent")
OXP_ENCAPSULATION(IPIP, 0, 4, "ipip", "RFC 2003")
OXP_HOST_OUTCOME(GUESSED, 0, remark, "answers")
OXP_DECISION(SLOT, 0, "slot slots", "of the flow")
OXP_DECISION(ECHO, 1, "", "a request")
#undef OXP_OUTCOME
'''


class TestParse(base.TestCase):

    def assert_refused(self, old, new, *words):
        self.assertEqual(1, LISTS.count(old), old)
        error = self.assertRaises(ValueError, enumerations.parse,
                                  LISTS.replace(old, new))
        for word in words:
            self.assertIn(word, str(error))

    def test_entries_of_several_lines_are_one(self):
        lists = enumerations.parse(LISTS)
        self.assertEqual(
            (enumerations.Entry('PASS', 0, 'uncounted', 'left alone'),
             enumerations.Entry('DROP_RATE', 1, 'dropped',
                                'opens (flows), too fast')),
            lists[enumerations.OUTCOME])
        self.assertEqual((enumerations.Entry('SENT', 0, '', 'sent'),),
                         lists[enumerations.PROBE_OUTCOME])
        self.assertEqual(
            (enumerations.Entry('GUESSED', 0, 'remark', 'answers'),),
            lists[enumerations.HOST_OUTCOME])
        self.assertEqual(
            (enumerations.Entry('SLOT', 0, 'slot slots', 'of the flow'),
             enumerations.Entry('ECHO', 1, '', 'a request')),
            lists[enumerations.DECISION])
        self.assertEqual(
            (enumerations.Entry('IPIP', 0, 'ipip', 'RFC 2003', 4),),
            lists[enumerations.ENCAPSULATION])

    def test_malformed_line_is_refused_by_number(self):
        for old, new, line in (
                ('PASS, 0, uncounted', 'PASS, 0, unknown', 6),
                ('PASS, 0, uncounted', 'pass, 0, uncounted', 6),
                ('PASS, 0, uncounted', 'PASS, 00, uncounted', 6),
                ('"left alone")', '"left alone"', 6),
                ('"left alone")', '"left \\"alone\\"")', 6),
                ('(DROP_RATE, 1,', '(DROP_RATE, 1 + 0,', 7),
                ('OXP_PROBE_OUTCOME(', 'OXP_OTHER(', 10),
                ('"ipip"', 'ipip', 11),
                ('IPIP, 0, 4,', 'IPIP, 0,', 11),
                ('"slot slots"', '"slot, slots"', 13),
                ('#undef OXP_OUTCOME', '#undef OTHER', 15),
                ('#undef OXP_OUTCOME', '#include "more.h"', 15)):
            self.assert_refused(old, new, f'line {line}:')

    def test_gaps_and_repetitions_are_refused_with_their_line(self):
        self.assert_refused('DROP_RATE, 1,', 'DROP_RATE, 2,', 'line 7:',
                            'DROP_RATE', '2, not 1')
        self.assert_refused('DROP_RATE, 1,', 'PASS, 1,', 'line 7:', 'twice')
        self.assert_refused(
            '"RFC 2003")', '"RFC 2003")\nOXP_ENCAPSULATION(GRE, 1, 4, "ipip", '
            '"x")', 'line 12:', 'GRE', 'twice')

    def test_list_without_entries_is_refused(self):
        self.assert_refused('OXP_PROBE_OUTCOME(SENT, 0, "sent")\n', '',
                            'OXP_PROBE_OUTCOME')


class TestLists(base.TestCase):

    def test_members_are_integers_of_the_contract(self):
        for made, macro in (
                (enumerations.Outcome, enumerations.OUTCOME),
                (enumerations.ProbeOutcome, enumerations.PROBE_OUTCOME),
                (enumerations.HostOutcome, enumerations.HOST_OUTCOME),
                (enumerations.Decision, enumerations.DECISION),
                (enumerations.Encapsulation, enumerations.ENCAPSULATION)):
            self.assertTrue(issubclass(made, enum.IntEnum))
            self.assertEqual(
                [(entry.name, entry.number)
                 for entry in enumerations.CONTRACT[macro]],
                [(member.name, member.value) for member in made])
            for member in made:
                self.assertIs(member, made(int(member)))
                copy = pickle.dumps(member)
                self.assertIs(member, pickle.loads(copy))  # noqa: S301

    def test_numbers_that_no_member_has_are_refused(self):
        self.assertRaises(ValueError, enumerations.Outcome,
                          len(enumerations.Outcome))

    def test_node_model_and_flavors_have_the_lists_of_the_contract(self):
        self.assertIs(enumerations.Outcome, types.Outcome)
        self.assertIs(enumerations.ProbeOutcome, types.ProbeOutcome)
        self.assertIs(enumerations.Encapsulation, types.Encapsulation)
        self.assertIs(enumerations.Outcome, state.Outcome)
        self.assertIs(enumerations.Encapsulation, state.Encapsulation)
        self.assertEqual(
            [kind.name.lower() for kind in enumerations.Encapsulation],
            list(flavor.ENCAPSULATIONS))

# SPDX-License-Identifier: Apache-2.0
"""Marks of probes, and when they come and go."""

import socket
from unittest import mock

from octavia_xdp_provider.agent import probes
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.unit import base

SETTINGS = datapath.Settings()
NUMBERS = range(0x4f000000, 0x50000000)


def home(wanted):
    return NUMBERS[probes.home(wanted) % len(NUMBERS)]


def target(number, vip=base.VIP):
    return datapath.ProbeTarget(vip, f'198.18.10.{number}')


class TestMarks(base.TestCase):

    def test_equal_targets_have_one_mark(self):
        marks = probes.Marks({}, NUMBERS)
        self.assertEqual(marks.of(target(1)), marks.of(target(1)))
        self.assertEqual({home(target(1)): target(1)}, marks.wanted)

    def test_mark_depends_on_every_field(self):
        kinds = datapath.Encapsulation
        targets = {
            target(1), target(2), target(1, '203.0.113.11'),
            *(target(1)._replace(**fields) for fields in (
                {'encapsulation': kinds.DSCP, 'dscp': 1},
                {'encapsulation': kinds.DSCP, 'dscp': 2},
                {'encapsulation': kinds.SRV6},
                {'encapsulation': kinds.SRV6, 'sid_function': 1},
                {'port': 80}, {'port': 443},
                *({'tunnel': datapath.Tunnel('198.18.20.1', kinds.GENEVE, key)}
                  for key in (1, 2))))}
        self.assertEqual(11, len(set(map(home, targets))))

    def test_home_of_a_mark_is_stable(self):
        # Where the table is empty, marks are those from before a reboot.
        self.assertEqual(0x4f5b424d, home(target(1)))

    def test_target_in_the_table_keeps_its_mark(self):
        held = {home(target(1)): target(2)}
        marks = probes.Marks(held, NUMBERS)
        self.assertEqual(home(target(1)), marks.of(target(2)))
        # Its home is taken, whether or not it is wanted still.
        self.assertEqual(home(target(1)) + 1, marks.of(target(1)))
        self.assertEqual(
            {target(1), target(2)}, set(marks.wanted.values()))

    def test_targets_with_one_home_get_marks_of_their_own(self):
        first, last = NUMBERS[0], NUMBERS[-1]
        with mock.patch.object(probes, 'home', return_value=last - first):
            marks = probes.Marks({}, NUMBERS)
            self.assertEqual([last, first, first + 1],
                             [marks.of(target(n)) for n in range(3)])
            again = probes.Marks(marks.wanted, NUMBERS)
            self.assertEqual(
                [first + 1, last, first, first + 2],
                [again.of(target(n)) for n in (2, 0, 1, 3)])


class FakeKernel:

    def __init__(self, device):
        self.table = frozenset({1})
        self.device = device
        self.asked = 0

    def routes(self):
        return self.table

    def route_device(self, _address, mark):
        self.asked += 1
        if self.device is None:
            raise OSError(101, 'Network is unreachable')
        return self.device


class FakeDatapath:

    probe_marks = NUMBERS

    def __init__(self):
        self.table = None
        self.attached = []

    def probes(self):
        return dict(self.table or {})

    def set_probes(self, wanted):
        self.table = dict(wanted)

    def attach_probe(self, index):
        if self.table is None:
            raise datapath.DatapathError(2, 'no targets of probes')
        self.attached.append(index)

    def remove_probes(self):
        existed, self.table = self.table is not None, None
        return existed

    def probe_outcomes(self):
        return {datapath.ProbeOutcome.SENT: 3,
                datapath.ProbeOutcome.DROP_UNKNOWN: 0}


class TestProbes(base.TestCase):

    def setUp(self):
        super().setUp()
        self.index = 1
        for name, fake in (('if_nametoindex', self.index_of),
                           ('if_indextoname', lambda index: f'eth{index}')):
            self.enterContext(mock.patch.object(socket, name, fake))
        self.kernel = FakeKernel(1)
        self.datapath = FakeDatapath()
        self.probes = self.make()

    def index_of(self, _name):
        if self.index is None:
            raise OSError(19, 'No such device')
        return self.index

    def make(self, enabled=True):
        return probes.Probes(self.datapath, self.kernel, ['eth1'], enabled)

    def run_pass(self, *numbers, kept=frozenset()):
        """Returns the marks of these members.

        :param kept: marks that the checks file holds besides.
        """
        self.probes.begin()
        marks = [self.mark(number) for number in numbers]
        self.probes.set()
        self.during = self.targets()
        self.probes.written(set(marks) - {None} | kept)
        return marks

    def mark(self, number):
        return self.probes.mark(
            base.VIP, datapath.MemberName(f'198.18.10.{number}'), SETTINGS)

    def targets(self):
        return set((self.datapath.table or {}).values())

    def test_marks_come_before_and_go_a_pass_after_the_file(self):
        first = self.run_pass(1, 2)
        self.assertEqual({target(1), target(2)}, self.during)
        self.assertEqual(first, self.run_pass(1, 2))
        self.run_pass(2)
        self.assertEqual({target(1), target(2)}, self.during)
        self.run_pass(2)
        self.assertEqual({target(2)}, self.during)

    def test_marks_are_kept_without_asking_while_nothing_has_changed(self):
        marks = self.run_pass(1, 2)
        self.probes.begin()
        version = self.probes.version
        kept = self.probes.targets([self.mark(1), self.mark(2)])
        self.probes.set()
        self.probes.written(set(marks))
        for _ in range(2):
            self.probes.begin()
            self.assertEqual(version, self.probes.version)
            self.probes.keep(kept, {base.VIP})
            self.probes.set()
            self.probes.written(set(marks))
            self.assertEqual({target(1), target(2)}, self.targets())

    def test_version_changes_with_whatever_determines_marks(self):
        def version():
            self.run_pass(1)
            return self.probes.version
        self.run_pass(1)
        before = version()
        self.assertEqual(before, version())
        self.kernel.table = frozenset({2})
        self.assertNotEqual(before, before := version())
        self.datapath.table = {NUMBERS[5]: target(9)}
        self.assertNotEqual(before, before := version())
        self.index = self.kernel.device = 2
        self.assertNotEqual(before, before := version())
        self.assertEqual(before, version())

    def test_marks_of_a_failed_pass_are_assigned_again(self):
        self.run_pass()
        self.probes.begin()
        with mock.patch.object(probes, 'home', return_value=0):
            self.mark(1)  # the pass ends before the table is set
            version = self.probes.version
            self.assertEqual(NUMBERS[0], self.run_pass(2)[0])
        self.assertNotEqual(version, self.probes.version)
        self.assertEqual({target(2)}, self.targets())

    def test_marks_stay_as_long_as_the_file_names_them(self):
        kept = {self.run_pass(1, 2)[0]}
        for _ in range(3):
            self.run_pass(2, kept=kept)
            self.assertEqual({target(1), target(2)}, self.during)

    def test_switched_off_it_stays_as_long_as_the_file_names_it(self):
        kept = set(self.run_pass(1))
        self.probes = self.make(enabled=False)
        for _ in range(3):
            self.run_pass(kept=kept)
        self.assertEqual({target(1)}, self.targets())
        self.assertEqual([None], self.run_pass(1))
        self.run_pass()
        self.assertIsNone(self.datapath.table)
        self.assertEqual({}, self.probes.report())

    def test_restart_keeps_what_the_file_may_name(self):
        marks = self.run_pass(1, 2)
        self.probes = self.make()
        self.assertEqual(marks[1:], self.run_pass(2))
        self.assertEqual({target(1), target(2)}, self.during)
        self.run_pass(2)
        self.assertEqual({target(2)}, self.during)

    def test_probes_that_leave_by_no_uplink_have_no_mark(self):
        self.kernel.device = 7
        self.assertEqual([None], self.run_pass(1))
        problem, = self.probes.report()['probes']['problems']
        self.assertIn(f'{base.VIP} leaves by eth7', problem)
        self.kernel.device = 1
        # The kernel is not asked again until its routes change.
        self.assertEqual([None], self.run_pass(1))
        self.assertEqual(1, self.kernel.asked)
        self.kernel.table = frozenset({2})
        self.assertEqual([home(target(1))], self.run_pass(1))
        self.assertEqual({'problems': [], 'outcomes': {'sent': 3}},
                         self.probes.report()['probes'])

    def test_targets_that_the_datapath_refuses_have_no_mark(self):
        """One such target would keep all others out of the table."""
        self.probes.begin()
        kinds = datapath.Encapsulation
        for member, kind, possible in (
                ('198.18.10.1', kinds.DSCP, True),
                ('2001:db8:10::1', kinds.DSCP, False),
                ('198.18.10.1', kinds.SRV6, False),
                ('2001:db8:10::1', kinds.SRV6, True),
                ('2001:db8:10::1', kinds.GUE, True),
                ('224.0.0.5', kinds.IPIP, False),
                ('255.255.255.255', kinds.IPIP, False),
                ('ff02::5', kinds.IPIP, False), ('::', kinds.IPIP, False)):
            mark = self.probes.mark(
                base.VIP, datapath.MemberName(member),
                datapath.Settings(encapsulation=kind))
            self.assertEqual(possible, mark is not None, (member, kind))

    def test_table_that_cannot_be_made_disturbs_nothing_else(self):
        with mock.patch.object(
                self.datapath, 'set_probes',
                side_effect=datapath.DatapathError(1, 'not permitted')):
            self.assertEqual([None], self.run_pass(1))
            self.probes.attach()
        self.assertEqual(
            ['Members are probed at their own addresses only: not '
             'permitted'], self.probes.report()['probes']['problems'])
        self.assertIsNotNone(self.run_pass(1)[0])
        self.assertEqual([], self.probes.report()['probes']['problems'])

    def test_vip_without_a_route_has_no_mark(self):
        self.kernel.device = None
        self.assertEqual([None], self.run_pass(1))
        problem, = self.probes.report()['probes']['problems']
        self.assertIn('has no route', problem)
        # The problem goes away with its VIP.
        self.run_pass()
        self.assertEqual([], self.probes.report()['probes']['problems'])

    def test_uplink_comes_and_is_replaced(self):
        self.index = None
        self.assertEqual([None], self.run_pass(1))
        self.assertIn('eth1 sends no probes through the datapath: No such '
                      'device', self.probes.report()['probes']['problems'])
        self.index = 1
        self.probes.attach()
        self.probes.attach()
        self.assertEqual([1], self.datapath.attached)
        self.index = self.kernel.device = 2
        self.kernel.table = frozenset({2})
        self.assertIsNotNone(self.run_pass(1)[0])
        self.assertEqual([1, 2], self.datapath.attached)

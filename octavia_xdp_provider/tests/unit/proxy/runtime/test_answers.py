# SPDX-License-Identifier: Apache-2.0
"""Answers of HAProxy's runtime API, recorded and hostile ones."""

from octavia_xdp_provider.proxy.runtime import answers
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.proxy.runtime import recorded


class TestAnswers(base.TestCase):

    def test_statistics(self):
        rows = answers.parse_statistics(recorded.STATISTICS, 5)
        self.assertEqual([recorded.LISTENER, 'health', *[recorded.BACKEND] * 3
                          ], [row['pxname'] for row in rows])
        self.assertEqual((30, 9000, 0), tuple(
            answers.number(rows[0], name) for name in ('stot', 'bout',
                                                       'nothing')))
        self.assertEqual(
            {(recorded.BACKEND, recorded.MEMBERS[0]): True,
             (recorded.BACKEND, recorded.MEMBERS[1]): False},
            answers.maintenance(rows))

    def test_statistics_that_haproxy_does_not_give_are_refused(self):
        heading = recorded.STATISTICS.splitlines()[0]
        for text in ('', 'No such command\n', '# pxname,svname,\na,b,\n',
                     recorded.STATISTICS * 2,
                     f'{heading}\n' + f'{"," * 16}\n' * 6):
            self.assertRaises(answers.BadAnswer, answers.parse_statistics,
                              text, 5)

    def test_row_that_is_cut_off_is_left_out(self):
        cut = recorded.STATISTICS[:-10]
        self.assertEqual(4, len(answers.parse_statistics(cut, 5)))

    def test_number_is_never_a_surprise(self):
        for text, value in (('7', 7), ('', 0), ('-1', 0), ('1e9', 0),
                            ('²', 0), ('9' * 30, 0)):
            self.assertEqual(value, answers.number({'stot': text}, 'stot'))

    def test_workers_and_information(self):
        self.assertEqual([7510, 7500],
                         answers.parse_workers(recorded.PROCESSES))
        information = answers.parse_information(recorded.INFORMATION)
        self.assertEqual(('7510', 'vm: a'), (information['Pid'],
                                             information['node']))

# SPDX-License-Identifier: Apache-2.0
"""Scenarios in a guest that counts instructions: this product, IPVS, HAProxy
and the kernel, in one guest and one run."""

import io
import pathlib
import tempfile

from oslotest import base

from bench.engine import run as engine
from bench.results import model
from bench.scenarios import load

# Largest difference of instructions between rounds on a busy machine.
APART_MAX = 0.1
ALL = {'xdp', 'ipvs', 'haproxy', 'kernel'}


class TestGuest(base.BaseTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        variants = [
            *load.only(load.scenario('beside_ipvs', changes={
                'rounds': 2, 'measure.seconds': 0.5}), ['on']),
            *load.scenario('beside_ipvs_rates', changes={
                'rounds': 1, 'measure.seconds': 0.1, 'beside': []})]
        with tempfile.TemporaryDirectory() as folder:
            cls.said = io.StringIO()
            cls.engine = engine.Engine(variants, engine.Options(
                store=pathlib.Path(folder) / 'results.sqlite', out=cls.said))
            cls.run_ = cls.engine.run('test')

    def cases(self, name):
        """Return the cases of one figure by software."""
        return {case.software: case for case in self.run_.cases
                if case.name == name}

    def test_all_were_measured(self):
        self.assertEqual(({}, {}), (self.engine.missing, self.engine.failed),
                         self.said.getvalue())
        for part in '', '/cpu', '/packet_cpu', '/p50', '/p99', '/memory':
            cases = self.cases(f'beside_ipvs/on{part}')
            self.assertEqual(ALL, set(cases), part)
            for case in cases.values():
                self.assertEqual(2, len(case.samples), case.name)
        peers = {ratio.peer for ratio in self.run_.versus}
        self.assertEqual(ALL - {'xdp'}, peers)

    def test_time_of_cpus_is_the_same_whatever_else_runs(self):
        for case in self.cases('beside_ipvs/on/cpu').values():
            self.assertLess(max(case.samples),
                            min(case.samples) * (1 + APART_MAX),
                            case.software)

    def test_other_load_marks_nothing(self):
        self.assertEqual([], [mark for case in self.run_.cases
                              for mark in case.marks
                              if mark.startswith('other load')])

    def test_rates(self):
        for kind in 'most', 'loss_free':
            case = self.cases(f'beside_ipvs_rates/{kind}')['xdp']
            self.assertEqual(('packets/s', model.HIGHER),
                             (case.unit, case.better))
            self.assertGreater(case.samples[0], 0)
        details, = case.details['rounds']
        self.assertGreater(details['trials'], 1)
        self.assertGreater(details['confirming_seconds'], 0)

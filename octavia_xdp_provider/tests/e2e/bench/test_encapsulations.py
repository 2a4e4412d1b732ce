# SPDX-License-Identifier: Apache-2.0
"""Each outer header, from a scenario to the sink that takes it off."""

import dataclasses
import io
import os
import pathlib

import fixtures
from oslotest import base

from bench.engine import run as engine
from bench.scenarios import load


class TestEncapsulations(base.BaseTestCase):

    def test_each_is_recognised_by_the_sink(self):
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        variants = [
            dataclasses.replace(variant, rounds=1, measure=dataclasses.replace(
                variant.measure, kind='max_rate', seconds=0.3))
            for variant in load.scenario('encapsulations')]
        made = engine.Engine(variants, engine.Options(
            store=folder / 'results.sqlite', out=io.StringIO()))
        run = made.run('encapsulations')
        self.assertEqual({}, made.failed)
        self.assertEqual({variant.name for variant in variants},
                         {case.name for case in run.cases})
        for case in run.cases:
            self.assertGreater(case.samples[0], 0, case.name)
            measured, = case.details['rounds']
            # Taken off by the sink, none is left that it could not read.
            self.assertEqual(0, measured['foreign'], case.name)

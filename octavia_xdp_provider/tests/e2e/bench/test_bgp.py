# SPDX-License-Identifier: Apache-2.0
"""A node that falls silent, with ExaBGP and BIRD between it and the router."""

import dataclasses
import io
import os
import pathlib

import fixtures
from oslotest import base

from bench.engine import run as engine
from bench.scenarios import load
from octavia_xdp_provider.tests.functional.bench import traffic_bed


class TestBgp(base.BaseTestCase):

    def test_what_a_silent_node_drops_is_lost_until_it_is_missed(self):
        if os.geteuid() != 0:
            self.skipTest('network namespaces need root')
        traffic_bed.build_programs()
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        declared, = load.scenario('node_loss_bgp')
        for family in (4, 6):
            variant = dataclasses.replace(
                declared, rounds=1, measure=dataclasses.replace(
                    declared.measure, rate=1000.0, seconds=12.0),
                services=dataclasses.replace(declared.services,
                                             family=family))
            made = engine.Engine([variant], engine.Options(
                store=folder / 'results.sqlite', out=io.StringIO()))
            run = made.run('bgp')
            self.assertEqual({}, made.failed)
            cases = {case.name: case for case in run.cases}
            lost = cases['node_loss_bgp/lost']
            details, = lost.details['rounds']
            self.assertGreater(lost.samples[0], 0)
            self.assertEqual(
                lost.samples[0],
                details['software']['lb1']['DROP_NO_NEXT_HOP']
                + details['refused'])
            self.assertEqual(2, len(lost.events))

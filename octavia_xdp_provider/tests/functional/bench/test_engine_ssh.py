# SPDX-License-Identifier: Apache-2.0
"""The engine on machines that are reached by ssh: our own generator, sinks,
forwarding program and plain clients, each on a machine of its own."""

import io
import pathlib

import fixtures
import yaml

from bench.engine import run as engine
from bench.results import store as stores
from bench.scenarios import load
from bench.traffic import programs
from octavia_xdp_provider.tests.functional.bench import rack_of_machines
from octavia_xdp_provider.tests.functional.bench import ssh_machines
from octavia_xdp_provider.tests.support import form

LIBRARY = engine.fingerprint.LIBRARY


@form.in_long_form
class TestEngine(ssh_machines.SshCase):

    ADDRESSES, LINKS = rack_of_machines.ADDRESSES, rack_of_machines.LINKS

    def setUp(self):
        super().setUp()
        for built in (LIBRARY, programs.PROGRAM):
            if not built.exists():
                self.skipTest(f'{built.name} is not built')
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.bed = self.folder / 'rack.yaml'
        declared = rack_of_machines.declaration(self.machines)
        # What is there is measured: that of this checkout.
        del declared['software'], declared['ssh']['roles']
        del declared['ssh']['variables']
        self.bed.write_text(yaml.safe_dump(declared))

    def measured(self, text):
        """Case by name of the only round; machines are as they were."""
        scenario = self.folder / 'short.yaml'
        scenario.write_text(text)
        before = self.settings()
        made = engine.Engine(
            load.scenario(str(scenario), bed=str(self.bed)),
            engine.Options(store=self.folder / 'results.sqlite',
                           out=io.StringIO()))
        with self.inside():
            run = made.run('test')
        self.assertEqual({}, made.missing)
        self.assertEqual({}, made.failed)
        self.assertEqual(before, self.settings())
        self.assertEqual([], self.folders())
        self.assertEqual(1, len(stores.Store(
            self.folder / 'results.sqlite').runs()))
        self.assertEqual(
            {'generator', 'lb', 'member'},
            set(run.fingerprint['beds']['rack']['machines']))
        return {case.name: case for case in run.cases}

    def test_the_greatest_rate(self):
        cases = self.measured('''\
            summary: a moment of traffic
            services: {vips: 3, members: 6}
            traffic: {flows: 64}
            measure: {kind: max_rate, seconds: 0.2}
            rounds: 1
            ''')
        rate, = cases['short'].samples
        self.assertGreater(rate, 0)
        details, = cases['short'].details['rounds']
        self.assertEqual({'member'}, set(details['by_receiver']))
        self.assertEqual({}, details['software']['lb'])

    def test_requests(self):
        cases = self.measured('''\
            summary: a moment of requests
            services: {protocol: tcp, members: 2}
            measure: {kind: requests, client: wrk, connections: 4,
                      seconds: 0.5}
            rounds: 1
            ''')
        for name in 'short', 'short/p50', 'short/cpu':
            value, = cases[name].samples
            self.assertGreater(value, 0, name)
        details, = cases['short'].details['rounds']
        self.assertEqual({}, details['failures'])
        self.assertGreater(details['done'], 0)

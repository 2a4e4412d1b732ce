# SPDX-License-Identifier: Apache-2.0
"""A link whose controller takes what it reports."""

from unittest import mock

import fixtures

from octavia_xdp_provider.agent import link
from octavia_xdp_provider.node import run_directory
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.process.agents import worker
from octavia_xdp_provider.tests.unit import base


def held(generation=3, error=None, state='up'):
    return {'generation': generation, 'error': error,
            'members': {'m': state}, 'announced': True}


class LinkTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.files = run_directory.RunDirectory(
            self.load(f'[agent]\nrun_directory = {directory}\n'))
        self.directory = directory
        self.controller = mock.Mock()
        self.controller.report.side_effect = self.take
        self.reports = []
        self.fetcher = mock.Mock(wanted=wanted.Wanted(5, {'a': (3, {})}),
                                 removed_as_of=0)
        self.fetcher.fetch.return_value = []
        self.worker = mock.Mock(problems=[], held={'a': held()})
        self.worker.result = worker.PassResult(self.fetcher.wanted, {})
        self.worker.has_applied.side_effect = lambda state: (
            state.documents
            is self.worker.result.wanted.documents)
        self.worker.facts.counters.return_value = {}
        self.state = mock.Mock()
        self.state.read.side_effect = lambda problems: {
            'problems': list(problems)}
        self.link = self.make(reports.Reporter(1))

    def make(self, reporter):
        self.ends = reporting.Ends(
            'host', self.controller, self.fetcher, reporter, self.worker,
            self.state, self.files)
        return link.Link(self.ends, 3600)

    def take(self, host, epoch, seq, report):
        self.reports.append(report)
        return {'taken': True, 'epoch': epoch, 'seq': seq}

    def report(self):
        self.link.report()
        return self.reports[-1]

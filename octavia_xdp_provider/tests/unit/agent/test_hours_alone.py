# SPDX-License-Identifier: Apache-2.0
"""Hours in which no controller answers: nothing grows, nothing runs out.

Time is by hand: what waits for some seconds between two attempts does so in
no time here.
"""

import itertools
import pickle
import threading

import oslo_messaging

from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import link as common_link
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit.agent import linking

# One attempt each RETRY_S and report_interval.
TURN_S = 6
HOUR = 3600 // TURN_S
HOURS = 6


class TestHoursAlone(linking.LinkTestCase):

    def setUp(self):
        super().setUp()
        # As in an agent after a day: a cache, reported once.
        self.cache = wanted.Cache(self.files.wanted)
        self.cache.save(wanted.Wanted(5, {'a': (3, {'name': 'web'})}), {'a'})
        self.now = 0.0
        self.fetcher = fetching.Fetcher(self.controller, 'host', self.cache,
                                        lambda: self.now)
        self.controller.fetch.side_effect = self.fetch
        self.controller.compare.side_effect = self.compare
        self.worker.result = self.worker.result._replace(
            wanted=self.fetcher.wanted)
        self.reporter = reports.Reporter(1)
        self.link = self.make(self.reporter)
        self.answers = True
        self.reaches = True
        self.states = itertools.cycle(('down', 'up'))
        self.turn()

    def fetch(self, host, since, after):
        if not self.answers:
            raise oslo_messaging.MessagingTimeout
        return {'as_of': 5, 'changed': [], 'removed': [], 'more': None,
                'compare': False}

    def compare(self, host, after):
        return {'as_of': 5, 'generations': {'a': 3}, 'more': None}

    def take(self, host, epoch, seq, report):
        if not self.reaches:
            raise oslo_messaging.MessageDeliveryFailure
        return super().take(host, epoch, seq, report)

    def turn(self):
        """Members change, counters count, and the link tries to say so."""
        self.now += TURN_S
        self.worker.held = {'a': linking.held(state=next(self.states))}
        self.link._reporting._figures_at = 0.0
        return self.link._try(self.link._turn)

    def kept(self):
        """Bytes of what the link keeps."""
        reporting = self.link._reporting
        return len(pickle.dumps((
            self.reporter.__dict__, reporting._facts, self.fetcher.wanted,
            self.fetcher._unsaved, reporting._problems)))

    def check(self):
        before = self.fetcher.wanted
        for _ in range(HOUR):
            self.assertFalse(self.turn())
        kept, threads = self.kept(), threading.active_count()
        with self.assertNoLogs(common_link.LOG.logger, 'INFO'):
            for _ in range((HOURS - 1) * HOUR):
                self.assertFalse(self.turn())
        self.assertEqual((kept, threads),
                         (self.kept(), threading.active_count()))
        # The wanted state is kept, also when the agent is restarted.
        self.assertIs(before.documents,
                      self.fetcher.wanted.documents)
        self.assertEqual({'a': (3, {'name': 'web'})},
                         wanted.Cache(self.files.wanted).load()
                         .documents)
        # The first answer ends it, with what is true then.
        self.answers = self.reaches = True
        said = len(self.reports)
        self.assertTrue(self.turn())
        if self.reports[-1]['held'] != self.worker.held:
            # A report that was under way goes first.
            self.assertTrue(self.turn())
        self.assertEqual(self.worker.held, self.reports[-1]['held'])
        self.assertLessEqual(len(self.reports) - said, 3)

    def test_agent_survives_hours_without_a_broker(self):
        self.answers = self.reaches = False
        self.check()

    def test_agent_survives_hours_of_lost_reports(self):
        self.reaches = False
        self.check()

# SPDX-License-Identifier: Apache-2.0
"""The thread that makes true what is wanted.

It alone changes the datapath. It waits for nobody: neither the controller nor
Open vSwitch's database has to answer for what is here to go on.
"""

import time
import typing

from oslo_log import log as logging

from octavia_xdp_provider.common import host_messages
from octavia_xdp_provider.common import passes
from octavia_xdp_provider.host import facts as facts_module
from octavia_xdp_provider.host import links as links_module
from octavia_xdp_provider.host import member_counters
from octavia_xdp_provider.host import moved_flows
from octavia_xdp_provider.host import reconcile
from octavia_xdp_provider.host import settings as settings_module

LOG = logging.getLogger(__name__)

# Between two ticks of the datapath, which frees flows that are over.
TICK_S = 2.0
# Between two passes without an event: they repair what somebody else has
# changed.
PASS_S = 10.0
# Between two readings of counters.
FACTS_S = 5.0


class Worker(passes.Passes[reconcile.PassResult]):
    """Runs passes.

    :param dataplane: datapath.Datapath, of this thread.
    :param links: of this thread.
    :param find_settings: gives settings.Settings of a links.Snapshot.
    :param watch: watch.Watch.
    :param common: gives host_spec.Common, or None.
    :param notify: called when there is something to report.
    :param metrics: metrics.Metrics.
    :param leaving: moved_flows.Leaving.
    :param arriving: moved_flows.Arriving.
    :param carried: member_counters.Carried, which the reconciler has too.
    :param come_round: see Loops.watch.
    :ivar problems: why what is wanted is not done: texts, mostly none.
    :ivar settings: settings.Settings of the last pass.
    :ivar facts: facts.Facts, a few seconds old.
    :ivar leaving: what is to be sent of ports whose tap has gone.
    """

    def __init__(self, reconciler: reconcile.Reconciler,
                 dataplane: typing.Any, links: links_module.Links,
                 find_settings: typing.Callable[
                     [links_module.Snapshot], settings_module.Settings],
                 watch: typing.Any, common: typing.Callable[[], typing.Any],
                 notify: typing.Callable[[], None], metrics: typing.Any,
                 leaving: moved_flows.Leaving, arriving: moved_flows.Arriving,
                 carried: member_counters.Carried,
                 come_round: typing.Callable[[], None] = lambda: None
                 ) -> None:
        super().__init__()
        self._reconciler = reconciler
        self._datapath = dataplane
        self._links = links
        self._find_settings = find_settings
        self._watch = watch
        self._common = common
        self._notify = notify
        self._metrics = metrics
        self.leaving, self._arriving = leaving, arriving
        self.carried = carried
        self._learned: typing.Any = None
        self._come_round = come_round
        self.problems: list[str] = []
        self.settings: settings_module.Settings | None = None
        self.facts = facts_module.Facts()

    @property
    def held(self) -> dict[str, host_messages.Held]:
        """What there is to be reported."""
        return self._reconciler.held

    def documents(self) -> list[typing.Any]:
        """What is wanted, as it is kept."""
        wanted = self._wanted
        return ([document for _generation, document
                 in wanted.documents.values()] if wanted else [])

    def counters(self) -> dict[str, host_messages.PortCounters]:
        """By id of the port."""
        return self.facts.counters()

    def run(self) -> None:
        """Until ``stop`` is called."""
        pass_at = tick_at = facts_at = 0.0
        while not self._stop.is_set():
            asked = self._work.is_set()
            self._work.clear()
            self._come_round()
            now = time.monotonic()
            try:
                if now >= tick_at:
                    tick_at = now + TICK_S
                    self._datapath.tick()
                if asked or now >= pass_at:
                    pass_at = now + PASS_S
                    self._pass()
                    self.leaving.look(self._reconciler.left)
                    self._arriving.take()
                if self.leaving.is_waiting:
                    self._notify()
                if asked or now >= facts_at:
                    facts_at = now + FACTS_S
                    self.facts = facts_module.read(self._datapath)
            except Exception:
                self._metrics.pass_failed()
                LOG.exception('A pass failed and is tried again.')
            self._work.wait(TICK_S)

    def _pass(self) -> None:
        begun = time.monotonic()
        before = self.settings
        self.settings = settings = self._find_settings(
            self._links.snapshot())
        problems = self._reconciler.prepare(settings, self._common())
        wanted, taps = self._wanted, self._watch.taps
        if taps is not None and not self._watch.is_known:
            problems.append(
                'Open vSwitch\'s database does not answer ([host_agent] '
                'ovsdb): taps are found by their names alone')
        news = problems != self.problems
        held = self._reconciler.held
        if news:
            self._say(problems)
            self.problems = problems
        if wanted is not None and taps is not None:
            self._reconciler.reconcile(wanted, taps)
            if self._learned is not wanted:
                # Until now those that have gone had the names of before.
                self.carried.learn(self.documents())
                self._learned = wanted
            self._has_passed(reconcile.PassResult(wanted))
        self._metrics.passed(time.monotonic() - begun)
        if (news or settings != before
                or self._reconciler.held is not held):
            self._notify()

    def _say(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self.problems:
                LOG.error('%s', problem)
        for problem in self.problems:
            if problem not in problems:
                LOG.info('No longer: %s', problem)

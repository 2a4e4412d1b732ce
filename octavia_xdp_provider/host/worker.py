# SPDX-License-Identifier: Apache-2.0
"""The thread that applies the wanted state.

Only this thread changes the datapath. It never blocks on the controller or on
Open vSwitch's database.
"""

import time
import typing

from oslo_log import log as logging

from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.host import facts as facts_module
from octavia_xdp_provider.host import links as links_module
from octavia_xdp_provider.host import member_counters
from octavia_xdp_provider.host import moved_flows
from octavia_xdp_provider.host import reconcile
from octavia_xdp_provider.host import settings as settings_module
from octavia_xdp_provider.process import passes

LOG = logging.getLogger(__name__)

# Seconds between two ticks of the datapath, which free expired flows.
TICK_S = 2.0
# Seconds between two passes without an event; they repair foreign changes.
PASS_S = 10.0
# Seconds between two readings of counters.
FACTS_S = 5.0


class Worker(passes.Passes[reconcile.PassResult]):
    """Runs passes.

    :param dataplane: datapath.Datapath of this thread.
    :param links: links.Links of this thread.
    :param find_settings: returns settings.Settings for a links.Snapshot.
    :param watch: watch.Watch.
    :param common: returns host_spec.Common, or None.
    :param notify: called when there is something to report.
    :param metrics: metrics.Metrics.
    :param leaving: moved_flows.Leaving.
    :param arriving: moved_flows.Arriving.
    :param carried: member_counters.Carried, shared with the reconciler.
    :param come_round: see Loops.watch.
    :ivar problems: texts of why the wanted state is not reached.
    :ivar settings: settings.Settings of the last pass.
    :ivar facts: facts.Facts, a few seconds old.
    :ivar leaving: moved_flows.Leaving, for the link.
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
        """Reconciler.held, for reports."""
        return self._reconciler.held

    def documents(self) -> list[typing.Any]:
        """Return the wanted documents, as cached."""
        wanted = self._wanted
        return ([document for _generation, document
                 in wanted.documents.values()] if wanted else [])

    def counters(self) -> dict[str, host_messages.PortCounters]:
        """Return counters by port id."""
        return self.facts.counters()

    def run(self) -> None:
        """Run passes until ``stop`` is called."""
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
            self._log_problems(problems)
            self.problems = problems
        if wanted is not None and taps is not None:
            self._reconciler.reconcile(wanted, taps)
            if self._learned is not wanted:
                # Not before: removed entries are counted by their old names.
                self.carried.learn(self.documents())
                self._learned = wanted
            self._has_passed(reconcile.PassResult(wanted))
        self._metrics.passed(time.monotonic() - begun)
        if (news or settings != before
                or self._reconciler.held is not held):
            self._notify()

    def _log_problems(self, problems: list[str]) -> None:
        for problem in problems:
            if problem not in self.problems:
                LOG.error('%s', problem)
        for problem in self.problems:
            if problem not in problems:
                LOG.info('Solved: %s', problem)

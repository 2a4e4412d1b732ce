# SPDX-License-Identifier: Apache-2.0
"""The thread that applies the wanted state.

Only this thread changes the datapath. It never blocks on the controller or on
Open vSwitch's database.
"""

from collections.abc import Callable
import dataclasses
import time

from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import facts as facts_module
from octavia_xdp_provider.host import member_counters
from octavia_xdp_provider.host import metrics as metrics_module
from octavia_xdp_provider.host import moved_flows
from octavia_xdp_provider.host import reconcile
from octavia_xdp_provider.host import settings as settings_module
from octavia_xdp_provider.host import watch as watch_module
from octavia_xdp_provider.process.agents import wanted as wanted_state
from octavia_xdp_provider.process.agents import worker

# Seconds between two ticks of the datapath, which free expired flows.
TICK_S = 2.0
# Seconds between two passes without an event; they repair foreign changes.
PASS_S = 10.0
# Seconds between two readings of counters.
FACTS_S = 5.0


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts that a turn works with.

    ``datapath``: of this thread. ``find_settings``: returns the settings as
    of now. ``common``: returns the data common to all hypervisors, or None.
    ``carried``: shared with the reconciler. Of ``leaving`` and ``carried``
    other threads have their share, see there.
    """

    datapath: datapath.Datapath
    find_settings: Callable[[], settings_module.Settings]
    watch: watch_module.Watch
    common: Callable[[], host_spec.Common | None]
    leaving: moved_flows.Leaving
    arriving: moved_flows.Arriving
    carried: member_counters.Carried


class Worker(worker.Worker):
    """Runs passes.

    :ivar settings: settings.Settings of the last pass.
    :ivar facts: facts.Facts, a few seconds old.
    """

    tick_s = TICK_S
    facts: facts_module.Facts
    _reconciler: reconcile.Reconciler

    def __init__(self, reconciler: reconcile.Reconciler, parts: Parts,
                 metrics: metrics_module.Metrics,
                 notify: Callable[[], None],
                 come_round: Callable[[], None] = lambda: None) -> None:
        super().__init__(reconciler, metrics, notify, come_round)
        self._parts = parts
        self._learned: wanted_state.Wanted | None = None
        self._pass_at = self._tick_at = self._facts_at = 0.0
        self.settings: settings_module.Settings | None = None
        self.facts = facts_module.Facts()

    def turn(self, asked: bool) -> float:
        now = time.monotonic()
        if now >= self._tick_at:
            self._tick_at = now + TICK_S
            self._parts.datapath.tick()
        if asked or now >= self._pass_at:
            self._pass_at = now + PASS_S
            self._pass()
            self._parts.leaving.look(self._reconciler.left)
            self._parts.arriving.take()
        if self._parts.leaving.is_waiting:
            self._notify()
        if asked or now >= self._facts_at:
            self._facts_at = now + FACTS_S
            self.facts = facts_module.read(self._parts.datapath)
        return TICK_S

    def _pass(self) -> None:
        begun = time.monotonic()
        watch, before = self._parts.watch, self.settings
        self.settings = settings = self._parts.find_settings()
        problems = self._reconciler.prepare(settings, self._parts.common())
        wanted, taps = self._wanted, watch.taps
        if taps is not None and not watch.is_known:
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
                self._parts.carried.learn([
                    document for _generation, document
                    in wanted.documents.values()])
                self._learned = wanted
            self._has_passed(worker.PassResult(wanted))
        self._metrics.passed(time.monotonic() - begun)
        if (news or settings != before
                or self._reconciler.held is not held):
            self._notify()

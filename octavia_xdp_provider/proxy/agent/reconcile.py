# SPDX-License-Identifier: Apache-2.0
"""Compares what load balancers should have with what they have.

A pass plans the load balancers whose documents have changed, has the launcher
run what is planned, and removes what is not wanted. Between passes only the
launcher's states and those of members are looked at. A load balancer that
cannot be planned or written keeps what it has, and does not stop others.
"""

from collections.abc import Iterable
import dataclasses
from typing import Literal

from oslo_log import log as logging

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.process.agents import wanted as wanted_state
from octavia_xdp_provider.proxy.agent import orders
from octavia_xdp_provider.proxy.agent import parts as agent_parts
from octavia_xdp_provider.proxy.agent import plans
from octavia_xdp_provider.proxy.agent import records
from octavia_xdp_provider.proxy.agent import states

LOG = logging.getLogger(__name__)

# What the launcher has done when its state has the same as a launch file.
_SERVED: tuple[Literal['configuration_hash', 'certificates'], ...] = (
    'configuration_hash', 'certificates')


@dataclasses.dataclass
class _Known:
    """A load balancer that is wanted.

    :ivar document: that of ``entry``, or the last one that could be used.
    :ivar bundles: hashes of all that it names.
    :ivar plan: of the document; None if nothing is to run.
    :ivar is_planned: whether ``plan`` follows from ``entry``.
    :ivar error: why it is not as wanted, or None.
    :ivar is_final: whether the error lasts until there is another document.
    :ivar is_early: whether the error is that something is yet to come.
    """

    entry: wanted_state.Entry
    document: proxy_spec.Document | None = None
    bundles: frozenset[str] = frozenset()
    plan: plans.Plan | None = None
    is_planned: bool = False
    error: str | None = None
    is_final: bool = False
    is_early: bool = False


class Reconciler:
    """Runs the passes; for the worker's thread.

    :ivar held: id → messages.Held. Replaced, never modified.
    :ivar listeners: number of listeners of all load balancers.
    """

    def __init__(self, written: orders.Orders, kept: records.Records,
                 running: states.States, parts: agent_parts.Parts) -> None:
        self._node: plans.Node | None = None
        self._orders = written
        self._records = kept
        self._states = running
        self._parts = parts
        self._known: dict[str, _Known] = {}
        self.held: dict[str, messages.Held] = {}
        self.listeners = 0
        # Why the files of what is not wanted are still there.
        self._left: dict[str, str] = {}
        # Why members are not probed as they should be.
        self._unprobed: str | None = None

    @property
    def problems(self) -> list[str]:
        """Return why something that is not wanted is still there, members are
        not probed, or secrets are missing."""
        return [*self._left.values(), *filter(None, (
            self._unprobed, self._parts.secrets.problem))]

    @property
    def failed(self) -> dict[str, str]:
        """Return why load balancers are not as wanted, by id."""
        return {key: known.error for key, known in self._known.items()
                if known.error}

    @property
    def is_waiting(self) -> bool:
        """Whether something is to be done that takes no other document."""
        return any(not known.is_final and (known.error or not known.is_planned)
                   for known in self._known.values())

    def reconcile(self, wanted: wanted_state.Wanted, node: plans.Node
                  ) -> None:
        """Have the launcher run what is wanted."""
        documents = wanted.documents
        if node != self._node:
            self._node = node
            for known in self._known.values():
                known.is_planned = False
        for key in self._known.keys() - documents.keys():
            del self._known[key]
        touched = set()
        for key, entry in documents.items():
            before = self._known.get(key)
            if before is None or before.entry is not entry:
                self._take(key, entry)
                touched.add(key)
        self._want_health()
        self._parts.secrets.want({
            key: known.bundles for key, known in self._known.items()
            if known.bundles})
        self.look_for_secrets()
        for key, known in self._known.items():
            if known.is_final:
                continue
            if self._apply(key, known):
                touched.add(key)
        self._remove_others()
        self.listeners = sum(
            len(known.document['listeners']) for known in self._known.values()
            if known.document)
        self._update(touched)

    def _want_health(self) -> None:
        self._unprobed = None
        try:
            self._parts.health.want({
                key: known.document for key, known in self._known.items()
                if known.document is not None})
        except OSError as error:
            self._unprobed = ('The health checker cannot be told what to '
                              f'probe: {_text(error)}')

    def look_for_secrets(self) -> None:
        """Plan those again in the next pass whose secrets have changed."""
        for key in self._parts.secrets.changed() & self._known.keys():
            self._known[key].is_planned = False

    def look(self, ids: Iterable[str]) -> None:
        """Look at what runs of these load balancers, and at changed states of
        members."""
        self._update({*ids, *self._parts.health.changed()})

    def _take(self, key: str, entry: wanted_state.Entry) -> None:
        """Take another document."""
        before = self._known.get(key)
        known = self._known[key] = _Known(entry)
        if before is not None:
            known.document, known.plan = before.document, before.plan
            known.bundles = before.bundles
        try:
            known.document = plans.check(key, entry[1])
            known.bundles = plans.bundles(known.document)
        except errors.Refused as error:
            known.error, known.is_final = _text(error), True
            LOG.error('The document of load balancer %s cannot be used: %s',
                      key, known.error)

    def _apply(self, key: str, known: _Known) -> bool:
        """Plan a load balancer, and have that run; return whether its report
        may have changed."""
        error, was_planned = None, known.is_planned
        known.is_early = False
        try:
            if not known.is_planned:
                known.plan = self._plan(key, known)
                known.is_planned = True
            if known.plan is None:
                self._orders.remove(key)
            elif not self._orders.has(key, known.plan):
                self._orders.write(key, known.plan)
        except agent_parts.Missing as missing:
            error, known.is_early = str(missing), True
        except (records.NoNumber, OSError) as failure:
            error = _text(failure)
        except Exception as failure:
            error = f'{type(failure).__name__}: {failure}'
            if error != known.error:
                LOG.exception('Load balancer %s cannot be planned.', key)
        before, known.error = known.error, error
        if error and error != before:
            LOG.error('Load balancer %s is not changed: %s', key, error)
        return error != before or known.is_planned != was_planned

    def _plan(self, key: str, known: _Known) -> plans.Plan | None:
        assert known.document is not None and self._node is not None
        record = self._records.of(key)
        node = self._node
        plan = plans.make(known.document, record, node, self._parts.secrets)
        if plan is None or self._orders.has_text(key, plan.configuration):
            return plan
        # A new process, or a new configuration, begins with what is known of
        # members now; a member that changes is no reason for either.
        down = self._parts.health.down(key)
        self._records.keep_down(key, down)
        return plans.make(known.document, self._records.of(key), node,
                          self._parts.secrets)

    def _remove_others(self) -> None:
        """Remove what is left of load balancers that are not wanted."""
        self._left = {}
        for key in self._orders.ids() - self._known.keys():
            try:
                self._orders.remove(key)
            except OSError as error:
                self._left[key] = (f'Load balancer {key} cannot be removed: '
                                   f'{_text(error)}')

    # What is reported.

    def _update(self, ids: Iterable[str]) -> None:
        """Update the facts about these load balancers, and forget those of
        which nothing is left."""
        ended = self._ended()
        for key in ended:
            self._records.remove(key)
        held = {key: fact for key, fact in self.held.items()
                if key not in ended}
        is_changed = len(held) != len(self.held)
        for key in self._known.keys() & set(ids):
            fact = self._fact(key, held.get(key))
            if fact is not None and fact != held.get(key):
                # Changed entries move to the end, see reports.Facts.
                held.pop(key, None)
                held[key] = fact
                is_changed = True
        if is_changed:
            self.held = held

    def _ended(self) -> set[str]:
        """Return the load balancers that are not wanted, and of which nothing
        runs."""
        if self._node is None or self._states.problem is not None:
            return set()
        others = (self._records.ids() | self.held.keys()) - self._known.keys()
        return others - self._states.by_id.keys() - self._left.keys()

    def _fact(self, key: str, before: messages.Held | None
              ) -> messages.Held | None:
        """Return what is reported; None if there is nothing yet."""
        known = self._known[key]
        members = dict(self._parts.health.states(key))
        generation = known.entry[0]
        error, has_ended = known.error, not known.is_early
        if error is None and known.plan is not None:
            has_ended, error = _outcome(known.plan.launch,
                                        self._states.by_id.get(key))
        if not has_ended and before is not None:
            return {**before, 'members': members}
        if not has_ended:
            generation, error = self._served(key, generation), None
            if not generation:
                return None
        elif error is None and known.plan is not None:
            self._keep_generation(key, generation)
        return {'generation': generation, 'members': members,
                'announced': False,
                'error': error and _shortened(error)}

    def _served(self, key: str, newest: int) -> int:
        """Return the generation that was served when the last agent ended, if
        HAProxy serves; 0 otherwise."""
        state, generation = (self._states.by_id.get(key),
                             self._records.generation(key))
        if state is None or not state['listening'] or generation > newest:
            return 0
        return generation

    def _keep_generation(self, key: str, generation: int) -> None:
        try:
            self._records.keep_generation(key, generation)
        except OSError as error:
            LOG.error('The record of load balancer %s cannot be written: %s',
                      key, _text(error))


def _outcome(launch: proxy_launch.Launch, state: proxy_launch.State | None
             ) -> tuple[bool, str | None]:
    """Return whether the launcher has done what it can about a launch file,
    and why that is not enough."""
    if state is None:
        return False, None
    if state['phase'] in ('refused', 'failed'):
        if state['judged_hash'] != launch['configuration_hash']:
            return False, None
        return True, state['error'] or f'HAProxy has {state["phase"]}'
    return (state['phase'] == 'running' and state['listening'] and all(
        state[name] == launch[name] for name in _SERVED)), None


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return (f'{error.filename}: {error.strerror}' if error.filename
                else error.strerror)
    return str(error)


def _shortened(text: str) -> str:
    if len(text) <= messages.TEXT_MAX:
        return text
    return f'{text[:messages.TEXT_MAX - 1]}…'

# SPDX-License-Identifier: Apache-2.0
"""Brings the hypervisor's datapath to the wanted state at the present taps.

The order within a pass:

1. Settings, networks of LB nodes, the program at the underlay's interfaces.
2. Address sets, so that every rule refers to an existing set.
3. Remove ports and entries that are not wanted, and entries whose key now
   belongs to another entry. Flows go with their entry, entries with their
   port.
4. Each port: programs at its tap, then the port, then its entries, so that
   traffic is admitted only once the tap has its programs.
5. Detach programs from interfaces that are no longer taps, then remove address
   sets that no rule refers to.

A pass compares with what the datapath lists, so a restarted agent changes only
what differs. Rules and address sets, which are long lists, are not compared
but set again in the first pass and every few minutes.
"""

import collections.abc
import dataclasses
import functools
import time
import typing

from oslo_log import log as logging

from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import host_messages
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.host import address_sets
from octavia_xdp_provider.host import datapath
from octavia_xdp_provider.host import documents
from octavia_xdp_provider.host import pins as pins_module
from octavia_xdp_provider.host import plans
from octavia_xdp_provider.host import settings as settings_module
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.library import HostError
from octavia_xdp_provider.host.taps import Tap
from octavia_xdp_provider.host.taps import Taps
from octavia_xdp_provider.process.agents.wanted import Wanted

LOG = logging.getLogger(__name__)

# Seconds after which everything that is not compared is set again.
AGAIN_S = 300.0
_TAP_HOOKS = (types.Hook.TAP_IN, types.Hook.TAP_OUT)

Error = errors.Refused | OSError


class _Held(typing.NamedTuple):
    """What the datapath lists, and the pinned programs."""

    ports: dict[str, types.PortState]
    entries: dict[int, types.Entry]
    pins: frozenset[pins_module.Pin]


@dataclasses.dataclass
class _Applied:
    """What was set and is not compared, by id; forgotten every AGAIN_S.

    ``sets``: generations of address sets. ``taps``: their indices.
    """

    common: host_spec.Common | None = None
    sets: dict[str, int] = dataclasses.field(default_factory=dict)
    rules: dict[str, tuple[types.Rule, ...]] = dataclasses.field(
        default_factory=dict)
    taps: dict[str, int] = dataclasses.field(default_factory=dict)

    def forget_port(self, port_id: str) -> None:
        self.rules.pop(port_id, None)
        self.taps.pop(port_id, None)


class Reconciler:
    """Runs the steps of a pass; not thread-safe.

    :param numbers: numbers of address sets.
    :param pin_directory: pin directory of the datapath.
    :param flows_per_port: returns the present limit.
    :param ending: called with types.EntryState of entries about to be
        removed.
    :ivar held: id → host_messages.Held of what exists. Replaced, never
        modified, when something in it changes.
    :ivar left: ids of ports with entries but without a tap.
    """

    def __init__(self, dataplane: datapath.Datapath,
                 numbers: address_sets.Numbers, pin_directory: str,
                 flows_per_port: collections.abc.Callable[[], int],
                 ending: collections.abc.Callable[
                     [list[types.EntryState]], object] = lambda _: None,
                 clock: collections.abc.Callable[[], float] = time.monotonic
                 ) -> None:
        self._datapath = dataplane
        self._numbers = numbers
        self._pin_directory = pin_directory
        self._flows_per_port = flows_per_port
        self._ending = ending
        self._clock = clock
        self._again_at = 0.0
        self._applied = _Applied()
        self._plans: dict[str, tuple[host_spec.Port, plans.Plan]] = {}
        self._numbered: frozenset[str] = frozenset()
        self._parsed: dict[str, tuple[int, documents.Parsed]] = {}
        self.held: dict[str, host_messages.Held] = {}
        self.left: frozenset[str] = frozenset()

    def prepare(self, settings: settings_module.Settings,
                common: host_spec.Common | None) -> list[str]:
        """Step 1. Settings are written even if unchanged, because the library
        then reads the MTU of the reply interface.

        :param common: None until a controller has answered for the first
            time; the networks in the datapath then stay.
        :returns: descriptions of problems of the hypervisor.
        """
        problems = list(settings.problems)
        attempts: list[collections.abc.Callable[[], object]] = [
            lambda: self._datapath.set_settings(settings.datapath)]
        if common is not None:
            attempts.append(lambda: self._set_networks(common))
        attempts += [
            functools.partial(self._datapath.attach, types.Hook.NIC, ifindex)
            for ifindex in settings.underlay]
        attempts.append(lambda: self._detach(
            {types.Hook.NIC}, frozenset(settings.underlay)))
        for attempt in attempts:
            try:
                attempt()
            except OSError as error:
                problems.append(words(error))
        return problems

    def reconcile(self, wanted: Wanted, taps: Taps) -> None:
        """Steps 2 to 5. Failures of single objects are in ``held``.

        :raises HostError: the datapath cannot be read.
        """
        if self._clock() >= self._again_at:
            self._again_at = self._clock() + AGAIN_S
            self._applied = _Applied()
        failed: dict[str, Error] = {}
        parsed = self._parse(wanted, failed)
        now = self._listed()
        self._set_address_sets(wanted, parsed, failed)
        planned = self._plan(parsed)
        self._remove(now, wanted, planned, failed)
        ifindices: dict[str, int] = {}
        for key, plan in planned.items():
            tap = taps.get(key)
            try:
                ifindices[key] = self._make(plan, tap, now)
            except HostError as error:
                failed[key] = error
                self._applied.forget_port(key)
                ifindices[key] = (tap.ifindex or 0) if tap else 0
        for key, state in now.ports.items():
            if key in wanted.documents:
                # Its document is malformed: keep the port as it is.
                ifindices.setdefault(key, state.ifindex)
        self._detach_taps(frozenset(ifindices.values()))
        self._forget_sets(wanted, failed)
        self._hold(wanted, taps, ifindices, failed)
        self.left = frozenset(
            key for key, plan in planned.items()
            if plan.entries and not ifindices.get(key))

    def _parse(self, wanted: Wanted, failed: dict[str, Error]
               ) -> dict[str, documents.Parsed]:
        """Return parsed documents by id, without malformed ones."""
        parsed = {}
        for key, (generation, document) in wanted.documents.items():
            before = self._parsed.get(key)
            if before is not None and before[0] == generation:
                parsed[key] = before[1]
                continue
            try:
                parsed[key] = documents.parse(key, document)
            except errors.Refused as error:
                failed[key] = error
        self._parsed = {key: (wanted.documents[key][0], document)
                        for key, document in parsed.items()}
        return parsed

    def _plan(self, parsed: dict[str, documents.Parsed]
              ) -> dict[str, plans.Plan]:
        """Return the plan of each port, reused for unchanged documents."""
        if self._numbers.ids != self._numbered:
            self._numbered, self._plans = self._numbers.ids, {}
        kept = {}
        for key, document in parsed.items():
            if document.port is None:
                continue
            before = self._plans.get(key)
            kept[key] = before if before and before[0] is document.port else (
                document.port, plans.plan(document.port, self._numbers.get))
        self._plans = kept
        return {key: plan for key, (_port, plan) in kept.items()}

    def _listed(self) -> _Held:
        return _Held({port.id: port for port in self._datapath.ports()},
                     {state.entry.key: state.entry
                      for state in self._datapath.entries()},
                     pins_module.pins(self._pin_directory))

    def _set_networks(self, common: host_spec.Common) -> None:
        if common != self._applied.common:
            self._datapath.set_networks(common['networks'])
            self._datapath.set_proxies(common.get('proxies', []))
            self._datapath.set_peers(common['peers'])
            self._applied.common = common

    def _set_address_sets(self, wanted: Wanted,
                          parsed: dict[str, documents.Parsed],
                          failed: dict[str, Error]) -> None:
        for key, document in parsed.items():
            if document.address_set is None or (
                    self._applied.sets.get(key) == wanted.documents[key][0]):
                continue
            try:
                self._datapath.set_address_set(
                    self._numbers.give(key), document.address_set['networks'])
            except OSError as error:
                failed[key] = error
            else:
                self._applied.sets[key] = wanted.documents[key][0]

    def _remove(self, now: _Held, wanted: Wanted,
                planned: dict[str, plans.Plan],
                failed: dict[str, Error]) -> None:
        """Step 3. Ports with malformed documents stay as they are."""
        ports = now.ports.keys() - wanted.documents.keys()
        entries = self._superfluous(now, wanted, planned)
        if ports or entries:
            self._ending([state for state in self._datapath.entries()
                          if state.entry.key in entries
                          or state.entry.port_id in ports])
        for port_id in sorted(ports):
            self._attempt(failed, port_id, functools.partial(
                self._datapath.delete_port, port_id))
            self._applied.forget_port(port_id)
        for key in entries:
            self._attempt(failed, now.entries.pop(key).port_id,
                          functools.partial(
                              self._datapath.delete_entry, key))

    @staticmethod
    def _superfluous(now: _Held, wanted: Wanted,
                     planned: dict[str, plans.Plan]) -> list[int]:
        """Return keys of entries to be removed although their ports stay."""
        planned_entries = {key: entry for plan in planned.values()
                           for key, entry in plan.entries.items()}
        superfluous = []
        for key, entry in sorted(now.entries.items()):
            if entry.port_id not in wanted.documents:
                continue  # is removed with its port
            other = planned_entries.get(key)
            if other is None and entry.port_id not in planned:
                continue
            if other is None or not plans.same_name(entry, other):
                superfluous.append(key)
        return superfluous

    def _attempt(self, failed: dict[str, Error], key: str,
                 function: collections.abc.Callable[[], object]) -> None:
        try:
            function()
        except HostError as error:
            failed[key] = error
            LOG.error('%s: %s', key, words(error))

    def _make(self, plan: plans.Plan, tap: Tap | None, now: _Held) -> int:
        """Step 4. Return the ifindex of the port's tap, or 0.

        :raises HostError: a part could not be applied.
        """
        ifindex, error = 0, None
        if tap is not None and tap.ifindex is not None:
            try:
                self._attach(plan.id, tap.ifindex, now.pins)
                ifindex = tap.ifindex
            except HostError as caught:
                # The tap may be gone again; set the entries all the same.
                error = caught
        state = now.ports.get(plan.id)
        wanted = types.Port(plan.id, ifindex, plan.open,
                            self._flows_per_port())
        if self._applied.rules.get(plan.id) != plan.rules or state is None or (
                state.ifindex, state.open, state.flows_max, state.rules) != (
                wanted.ifindex, wanted.open, wanted.flows_max,
                len(plan.rules)):
            self._datapath.set_port(wanted, plan.rules)
            self._applied.rules[plan.id] = plan.rules
        for key, entry in plan.entries.items():
            if now.entries.get(key) != entry:
                error = self._set_entry(entry) or error
        if error is not None:
            raise error
        return ifindex

    def _attach(self, port_id: str, ifindex: int,
                pins: frozenset[pins_module.Pin]) -> None:
        if self._applied.taps.get(port_id) == ifindex and all(
                pins_module.Pin(hook, ifindex) in pins
                for hook in _TAP_HOOKS):
            return
        for hook in _TAP_HOOKS:
            self._datapath.attach(hook, ifindex)
        self._applied.taps[port_id] = ifindex

    def _set_entry(self, entry: types.Entry) -> HostError | None:
        try:
            self._datapath.set_entry(entry)
        except HostError as error:
            return error
        return None

    def _detach_taps(self, kept: frozenset[int]) -> None:
        """Step 5."""
        try:
            self._detach(_TAP_HOOKS, kept)
        except OSError as error:
            LOG.error('Programs could not be detached from interfaces that '
                      'are no longer taps of members: %s', words(error))

    def _detach(self, hooks: collections.abc.Collection[types.Hook],
                kept: frozenset[int]) -> None:
        """Detach programs from all interfaces except ``kept``."""
        for pin in sorted(pins_module.pins(self._pin_directory)):
            if pin.hook in hooks and pin.ifindex not in kept:
                self._datapath.detach(pin.hook, pin.ifindex)

    def _forget_sets(self, wanted: Wanted, failed: dict[str, Error]) -> None:
        for key in self._numbers.ids - wanted.documents.keys():
            number = self._numbers.get(key)
            try:
                if number is not None:
                    self._datapath.set_address_set(number, ())
                self._numbers.forget(key)
            except OSError as error:
                failed[key] = error
            self._applied.sets.pop(key, None)

    def _hold(self, wanted: Wanted, taps: Taps, ifindices: dict[str, int],
              failed: dict[str, Error]) -> None:
        held: dict[str, host_messages.Held] = {}
        for key, (generation, _document) in wanted.documents.items():
            tap = taps.get(key)
            error = failed.get(key)
            text = words(error) if error is not None else None
            if text is None and tap is not None:
                text = tap.problem
            held[key] = {
                'generation': generation,
                'ifindex': ifindices.get(key) or None,
                'error': text[:messages.TEXT_MAX] if text else None}
        for key, state in held.items():
            before = self.held.get(key)
            if state['error'] and (before is None
                                   or before['error'] != state['error']):
                LOG.warning('%s: %s', key, state['error'])
        if held != self.held:
            self.held = held


def words(error: Exception) -> str:
    """Return the text of an error, without its errno."""
    return str(getattr(error, 'strerror', None) or error)

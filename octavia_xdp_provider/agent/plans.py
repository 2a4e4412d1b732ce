# SPDX-License-Identifier: Apache-2.0
"""The plans of all load balancers on this node, updated on change.

A plan depends on the document, the operator's networks, the node's own
addresses, path MTUs, NAT and the marks of probes. It is recomputed only when
one of these has changed.

Keys of checks are 64 bits of a keyed hash. If two different checks collide,
the load balancer of the second one is refused; all others are not affected.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import types
from typing import Any
from typing import NamedTuple

from oslo_config import cfg

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.agent import nat as agent_nat
from octavia_xdp_provider.agent import probes as agent_probes
from octavia_xdp_provider.agent.uplinks import path_mtu as agent_path_mtu
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.health import checks_file
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process.agents.wanted import Entry

Check = checks_file.Check | checks_file.Condition
# The arguments of a call for a mark, and the mark.
Mark = tuple[forwarding.MarkTarget, int | None]


class Made(NamedTuple):
    """A plan or an error, and the inputs of both.

    ``entry``: (generation, document). ``marks``: (arguments, mark) of each
    call for the mark of a probe. ``targets``: mark → target, of these.
    ``vips``: the VIPs in these calls. ``file``: the checks file's document.
    """

    entry: Entry
    plan: forwarding.Plan | None
    error: str | None
    marks: tuple[Mark, ...] = ()
    file: dict[str, Any] | None = None
    targets: Mapping[int, datapath.ProbeTarget] = types.MappingProxyType({})
    vips: frozenset[str] = frozenset()


class Changes(NamedTuple):
    """The result of an update, as ids of load balancers.

    ``looked``: those planned again, whose report may change. ``planned``:
    those whose plan has changed or failed. ``gone``: those no longer wanted.
    """

    looked: set[str]
    planned: set[str]
    gone: set[str]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What plans depend on besides documents and options.

    ``policy``: returns the current AddressPolicy. ``keys``: of this node.
    """

    policy: Callable[[], address_policy.AddressPolicy]
    path_mtu: agent_path_mtu.PathMtu | None = None
    probes: agent_probes.Probes | None = None
    keys: checks_file.Keys = checks_file.UNKEYED
    nat: agent_nat.Nat | None = None


class Plans:
    """All plans; used by the worker's thread only.

    :ivar plans: by id of the load balancer.
    :ivar failed: id → why it has no plan.
    """

    def __init__(self, conf: cfg.ConfigOpts, inputs: Inputs) -> None:
        self._conf = conf
        self._inputs = inputs
        self._probes = inputs.probes
        self._context: tuple[Any, ...] = ()
        self._probes_version: int | None = None
        self._made: dict[str, Made] = {}
        self._owners = _KeyOwners(inputs.keys)
        self.plans: dict[str, forwarding.Plan] = {}
        self.failed: dict[str, str] = {}

    def update(self, load_balancers: Mapping[str, Entry]) -> Changes:
        """Update the plans for id → (generation, document)."""
        policy = self._inputs.policy()
        nat, path_mtu = self._inputs.nat, self._inputs.path_mtu
        if path_mtu:
            path_mtu.refresh()
        ask = False
        if self._probes:
            self._probes.begin()
            ask = self._probes.version != self._probes_version
            self._probes_version = self._probes.version
        context = (policy, path_mtu and path_mtu.version,
                   nat and nat.version)
        is_context_new = context != self._context
        self._context = context
        gone = self._made.keys() - load_balancers.keys()
        for key in gone:
            self._owners.remove(key)
            self._made.pop(key)
            self.plans.pop(key, None)
            self.failed.pop(key, None)
        looked: set[str] = set()
        planned: set[str] = set()
        for key, entry in load_balancers.items():
            made = self._made.get(key)
            if (is_context_new or made is None or made.entry is not entry
                    or not self._keeps_marks(made, ask)):
                looked.add(key)
                if self._store(key, self._make(key, entry, policy)):
                    planned.add(key)
        if nat:
            nat.keep_groups({plan.nat_project
                             for plan in self.plans.values()})
        return Changes(looked, planned, gone)

    def of_nat(self) -> list[str]:
        """Return the ids of load balancers with forwarding nat."""
        return [key for key, plan in self.plans.items()
                if plan.nat_project is not None]

    def file(self, key: str) -> dict[str, Any]:
        """Return the checks file's document of a planned load balancer."""
        return self._made[key].file or {}

    def _keeps_marks(self, made: Made, ask: bool) -> bool:
        """Return whether a plan's probes keep their marks.

        :param ask: whether marks may have changed.
        """
        # Each pass must request all marks, or they leave the table.
        if not made.marks or not self._probes:
            return True
        if not ask:
            self._probes.keep(made.targets, made.vips)
            return True
        marks = [(arguments, self._probes.mark(*arguments))
                 for arguments, _ in made.marks]
        return tuple(marks) == made.marks

    def _make(self, key: str, entry: Entry,
              policy: address_policy.AddressPolicy) -> Made:
        marks: list[Mark] = []
        probes, inputs = self._probes, self._inputs

        def mark(vip: str, member: datapath.MemberName,
                 settings: datapath.Settings, tunnel: datapath.Tunnel | None
                 ) -> int | None:
            assert probes
            number = probes.mark(vip, member, settings, tunnel)
            marks.append(((vip, member, settings, tunnel), number))
            return number

        def result(plan: forwarding.Plan | None, error: str | None = None,
                   file: dict[str, Any] | None = None) -> Made:
            given = [number for _, number in marks if number is not None]
            return Made(entry, plan, error, tuple(marks), file,
                        probes.targets(given) if probes and given else {},
                        frozenset(arguments[0] for arguments, _ in marks))
        try:
            plan = forwarding.plan(entry[1], forwarding.Context(
                policy, inputs.path_mtu.of if inputs.path_mtu else None,
                self._conf.agent.health_scope, mark if probes else None,
                inputs.keys, inputs.nat.share if inputs.nat else None,
                self._conf.host))
            file = checks_file.build_document(
                plan.checks, plan.conditions, self._groups(plan),
                keys=inputs.keys, patience=plan.patience)
            self._owners.set(key, plan)
        except errors.Refused as error:
            return result(None, error.for_operator)
        except checks_file.ChecksFileError as error:
            return result(None, f'health monitor: {error}')
        return result(plan, file=file)

    def _groups(self, plan: forwarding.Plan) -> list[checks_file.Group]:
        panic_percent = self._conf.agent.health_panic_percent
        if not panic_percent:
            return []
        return [checks_file.Group(pool_id, frozenset(keys), panic_percent)
                for pool_id, keys in plan.pools.items()]

    def _store(self, key: str, made: Made) -> bool:
        """Store a result. Return whether the plan has changed."""
        before = self._made.get(key)
        self._made[key] = made
        if made.plan is None:
            self.plans.pop(key, None)
            self.failed[key] = made.error or ''
            return True
        self.failed.pop(key, None)
        self.plans[key] = made.plan
        return before is None or made.plan != before.plan or (
            made.file != before.file)


class _KeyOwners:
    """The check or condition of each key, and the load balancers using it."""

    def __init__(self, keys: checks_file.Keys) -> None:
        self._keys = keys
        # key → (check or condition, ids of load balancers)
        self._users: dict[str, tuple[Check, set[str]]] = {}
        self._of: dict[str, Iterable[str]] = {}  # id → keys

    def set(self, load_balancer_id: str, plan: forwarding.Plan) -> None:
        """Replace the keys of a load balancer by those of its new plan.

        :raises ChecksFileError: a key belongs to a different check already;
            nothing has changed.
        """
        wanted: dict[str, Check] = {}
        checks: list[Check] = [*plan.checks, *plan.conditions]
        for check in checks:
            key = self._keys.of(check)
            other, users = self._users.get(key, (None, set()))
            if key in wanted:
                other, users = wanted[key], {''}
            if other is not None and not _is_same(other, check) and (
                    users - {load_balancer_id}):
                raise checks_file.ChecksFileError(
                    f'key {key} of {_describe(check)} is also that of another '
                    'check on this node; change any value of the monitor')
            wanted[key] = check
        self.remove(load_balancer_id)
        self._of[load_balancer_id] = wanted.keys()
        for key, check in wanted.items():
            self._users.setdefault(key, (check, set()))[1].add(
                load_balancer_id)

    def remove(self, load_balancer_id: str) -> None:
        for key in self._of.pop(load_balancer_id, ()):
            users = self._users[key][1]
            users.discard(load_balancer_id)
            if not users:
                del self._users[key]


def _is_same(check: Check, other: Check) -> bool:
    return check is other or check == other or (
        type(check) is type(other) and check.as_dict() == other.as_dict())


def _describe(check: Check) -> str:
    if isinstance(check, checks_file.Condition):
        return 'a condition'
    return f'the {check.type} check of {check.address}'

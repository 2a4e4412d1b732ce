# SPDX-License-Identifier: Apache-2.0
"""The plans of all load balancers on this node, updated on change.

A plan depends on the document, the operator's networks, the node's own
addresses, path MTUs, NAT and the marks of probes. It is recomputed only when
one of these has changed.

Keys of checks are 64 bits of a keyed hash. If two different checks collide,
the load balancer of the second one is refused; all others are not affected.
"""

import types
import typing

from octavia_xdp_provider.agent import checks_file
from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.contracts import errors


class Made(typing.NamedTuple):
    """A plan or an error, and the inputs of both.

    ``entry``: (generation, document). ``marks``: (arguments, mark) of each
    call for the mark of a probe. ``targets``: mark → target, of these.
    ``vips``: the VIPs in these calls. ``file``: the checks file's document.
    """

    entry: tuple
    plan: forwarding.Plan | None
    error: str | None
    marks: tuple = ()
    file: dict | None = None
    targets: typing.Mapping = types.MappingProxyType({})
    vips: frozenset = frozenset()


class Changes(typing.NamedTuple):
    """The result of an update, as ids of load balancers.

    ``looked``: those planned again, whose report may change. ``planned``:
    those whose plan has changed or failed. ``gone``: those no longer wanted.
    """

    looked: set
    planned: set
    gone: set


class Plans:
    """All plans; used by the worker's thread only.

    :param policy: returns the current AddressPolicy.
    :param path_mtu: uplinks.path_mtu.PathMtu, or None.
    :param probes: probes.Probes, or None.
    :param keys: checks_file.Keys of this node.
    :param nat: nat.Nat, or None.
    """

    def __init__(self, scope, panic_percent, policy, path_mtu, probes, keys,
                 nat=None, host=''):
        self._scope = scope
        self._panic_percent = panic_percent
        self._policy = policy
        self._path_mtu = path_mtu
        self._probes = probes
        self._keys = keys
        self._nat = nat
        self._host = host
        self._context = None
        self._probes_version = None
        self._made = {}  # id → Made
        self._owners = _KeyOwners(keys)
        self.plans = {}   # id → Plan
        self.failed = {}  # id → why it has no plan

    def update(self, load_balancers):
        """Update the plans for id → (generation, document)."""
        policy = self._policy()
        if self._path_mtu:
            self._path_mtu.refresh()
        ask = False
        if self._probes:
            self._probes.begin()
            ask = self._probes.version != self._probes_version
            self._probes_version = self._probes.version
        context = (policy, self._path_mtu and self._path_mtu.version,
                   self._nat and self._nat.version)
        is_context_new = context != self._context
        self._context = context
        gone = self._made.keys() - load_balancers.keys()
        for key in gone:
            self._owners.remove(key)
            for by_id in (self._made, self.plans, self.failed):
                by_id.pop(key, None)
        looked, planned = set(), set()
        for key, entry in load_balancers.items():
            made = self._made.get(key)
            if (is_context_new or made is None or made.entry is not entry
                    or not self._keeps_marks(made, ask)):
                looked.add(key)
                if self._store(key, self._make(key, entry, policy)):
                    planned.add(key)
        if self._nat:
            self._nat.keep_groups({plan.nat_project
                                   for plan in self.plans.values()})
        return Changes(looked, planned, gone)

    def of_nat(self):
        """Return the ids of load balancers with forwarding nat."""
        return [key for key, plan in self.plans.items()
                if plan.nat_project is not None]

    def file(self, key):
        """Return the checks file's document of a planned load balancer."""
        return self._made[key].file

    def _keeps_marks(self, made, ask):
        """Return whether a plan's probes keep their marks.

        :param ask: whether marks may have changed.
        """
        # Each pass must request all marks, or they leave the table.
        if not made.marks:
            return True
        if not ask:
            self._probes.keep(made.targets, made.vips)
            return True
        marks = [(arguments, self._probes.mark(*arguments))
                 for arguments, _ in made.marks]
        return tuple(marks) == made.marks

    def _make(self, key, entry, policy):
        marks = []

        def mark(*arguments):
            marks.append((arguments, self._probes.mark(*arguments)))
            return marks[-1][1]

        def result(plan, error=None, file=None):
            given = [number for _, number in marks if number is not None]
            return Made(entry, plan, error, tuple(marks), file,
                        self._probes.targets(given) if given else {},
                        frozenset(arguments[0] for arguments, _ in marks))
        try:
            plan = forwarding.plan(
                entry[1], policy, self._path_mtu and self._path_mtu.of,
                self._scope, mark if self._probes else None, self._keys,
                self._nat and self._nat.share, self._host)
            file = checks_file.build_document(
                plan.checks, plan.conditions, self._groups(plan),
                keys=self._keys, patience=plan.patience)
            self._owners.set(key, plan)
        except errors.Refused as error:
            return result(None, error.for_operator)
        except checks_file.ChecksFileError as error:
            return result(None, f'health monitor: {error}')
        return result(plan, file=file)

    def _groups(self, plan):
        if not self._panic_percent:
            return ()
        return [checks_file.Group(pool_id, frozenset(keys),
                                  self._panic_percent)
                for pool_id, keys in plan.pools.items()]

    def _store(self, key, made):
        """Store a result. Return whether the plan has changed."""
        before = self._made.get(key)
        self._made[key] = made
        if made.plan is None:
            self.plans.pop(key, None)
            self.failed[key] = made.error
            return True
        self.failed.pop(key, None)
        self.plans[key] = made.plan
        return before is None or made.plan != before.plan or (
            made.file != before.file)


class _KeyOwners:
    """The check or condition of each key, and the load balancers using it."""

    def __init__(self, keys):
        self._keys = keys
        self._users = {}  # key → (check or condition, ids of load balancers)
        self._of = {}     # id → keys

    def set(self, load_balancer_id, plan):
        """Replace the keys of a load balancer by those of its new plan.

        :raises ChecksFileError: a key belongs to a different check already;
            nothing has changed.
        """
        wanted = {}
        for check in (*plan.checks, *plan.conditions):
            key = self._keys.of(check)
            other, users = self._users.get(key, (None, ()))
            if key in wanted:
                other, users = wanted[key], (None,)
            if other is not None and not _is_same(other, check) and (
                    set(users) - {load_balancer_id}):
                raise checks_file.ChecksFileError(
                    f'key {key} of {_describe(check)} is also that of another '
                    'check on this node; change any value of the monitor')
            wanted[key] = check
        self.remove(load_balancer_id)
        self._of[load_balancer_id] = wanted.keys()
        for key, check in wanted.items():
            self._users.setdefault(key, (check, set()))[1].add(
                load_balancer_id)

    def remove(self, load_balancer_id):
        for key in self._of.pop(load_balancer_id, ()):
            users = self._users[key][1]
            users.discard(load_balancer_id)
            if not users:
                del self._users[key]


def _is_same(check, other):
    return check is other or check == other or (
        type(check) is type(other) and check.as_dict() == other.as_dict())


def _describe(check):
    if isinstance(check, checks_file.Condition):
        return 'a condition'
    return f'the {check.type} check of {check.address}'

# SPDX-License-Identifier: Apache-2.0
"""What all load balancers need on this node, planned when it changes.

A plan follows from the document, the operator's networks, the node's own
addresses, the MTUs of paths and the marks of probes. It is made anew if one
of these is another one, and kept otherwise.

Keys of checks are 64 bits of a keyed hash. Should two different checks have
one key all the same, the load balancer that brought the second one is
refused, and all others go on.
"""

import types
import typing

from octavia_xdp_provider.agent import forwarding
from octavia_xdp_provider.common import checks_file
from octavia_xdp_provider.common import errors


class Made(typing.NamedTuple):
    """A plan, or why there is none, and what it was made from.

    ``entry``: (generation, document). ``marks``: (arguments, mark) of each
    question for the mark of a probe; ``targets``, ``vips``: what they stand
    for, and whose they are. ``file``: the checks file.
    """

    entry: tuple
    plan: forwarding.Plan | None
    error: str | None
    marks: tuple = ()
    file: dict | None = None
    targets: typing.Mapping = types.MappingProxyType({})
    vips: frozenset = frozenset()


class Changes(typing.NamedTuple):
    """What an update has found, as ids of load balancers.

    ``looked``: with something to report; ``planned``: whose plan is
    another one, or none; ``gone``: that are not wanted any more.
    """

    looked: set
    planned: set
    gone: set


class Plans:
    """All plans; belongs to the worker's thread.

    :param policy: gives the AddressPolicy as it is now.
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
        self.failed = {}  # id → why there is none

    def update(self, load_balancers):
        """Plan what is wanted: id → (generation, document)."""
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
        anew = context != self._context
        self._context = context
        gone = self._made.keys() - load_balancers.keys()
        for key in gone:
            self._owners.remove(key)
            for known in (self._made, self.plans, self.failed):
                known.pop(key, None)
        looked, planned = set(), set()
        for key, entry in load_balancers.items():
            made = self._made.get(key)
            if (anew or made is None or made.entry is not entry
                    or not self._marks_hold(made, ask)):
                looked.add(key)
                if self._take(key, self._make(key, entry, policy)):
                    planned.add(key)
        if self._nat:
            self._nat.keep_groups({plan.nat_project
                                   for plan in self.plans.values()})
        return Changes(looked, planned, gone)

    def of_nat(self):
        """Ids of load balancers with forwarding nat."""
        return [key for key, plan in self.plans.items()
                if plan.nat_project is not None]

    def file(self, key):
        """The checks file of a load balancer that is planned."""
        return self._made[key].file

    def _marks_hold(self, made, ask):
        """Whether probes have the marks that they had; keeps them so.

        :param ask: they may have others.
        """
        # All are wanted anew, or they would be taken out of the table.
        if not made.marks:
            return True
        if not ask:
            self._probes.keep(made.targets, made.vips)
            return True
        now = [(arguments, self._probes.mark(*arguments))
               for arguments, _ in made.marks]
        return tuple(now) == made.marks

    def _make(self, key, entry, policy):
        marks = []

        def mark(*arguments):
            marks.append((arguments, self._probes.mark(*arguments)))
            return marks[-1][1]

        def result(plan, error=None, file=None):
            given = [one for _, one in marks if one is not None]
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

    def _take(self, key, made):
        """Keep what was made. Whether there is another plan."""
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
    """What each key stands for, and who uses it."""

    def __init__(self, keys):
        self._keys = keys
        self._users = {}  # key → (check or condition, ids of load balancers)
        self._of = {}     # id → keys

    def set(self, load_balancer_id, plan):
        """Note the keys of a plan in place of those of the one before.

        :raises ChecksFileError: one stands for something else already;
            nothing has changed.
        """
        wanted = {}
        for one in (*plan.checks, *plan.conditions):
            key = self._keys.of(one)
            other, users = self._users.get(key, (None, ()))
            if key in wanted:
                other, users = wanted[key], (None,)
            if other is not None and not _is_same(other, one) and (
                    set(users) - {load_balancer_id}):
                raise checks_file.ChecksFileError(
                    f'key {key} of {_name(one)} is also that of another '
                    'check on this node; change any value of the monitor')
            wanted[key] = one
        self.remove(load_balancer_id)
        self._of[load_balancer_id] = wanted.keys()
        for key, one in wanted.items():
            self._users.setdefault(key, (one, set()))[1].add(
                load_balancer_id)

    def remove(self, load_balancer_id):
        for key in self._of.pop(load_balancer_id, ()):
            users = self._users[key][1]
            users.discard(load_balancer_id)
            if not users:
                del self._users[key]


def _is_same(one, other):
    return one is other or one == other or (
        type(one) is type(other) and one.as_dict() == other.as_dict())


def _name(one):
    if isinstance(one, checks_file.Condition):
        return 'a condition'
    return f'the {one.type} check of {one.address}'

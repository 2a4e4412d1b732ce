# SPDX-License-Identifier: Apache-2.0
"""Probes that reach a member as traffic does: inside its encapsulation.

A probe to a VIP carries a mark. The datapath's table maps each mark to a
member and its encapsulation (octavia_xdp.h). New marks enter the table before
the checks file refers to them. Marks leave the table one pass after their
checks have left the file, since the checker may still send probes with them.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import hashlib
import ipaddress
import socket
from typing import Any

from oslo_log import log as logging

from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink

LOG = logging.getLogger(__name__)

Table = Mapping[int, datapath.ProbeTarget]


class Marks:
    """Assigns a unique mark to each target.

    A target in the table keeps its mark, across restarts too. Other targets
    get marks that are not in the table, so that no mark changes its member
    while probes with it may be in flight.

    :param held: the table, by mark.
    :param numbers: the range of available marks.
    """

    def __init__(self, held: Table, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        # By mark, until it is in the table.
        self.wanted: dict[int, datapath.ProbeTarget] = {}
        self.set(held)

    def set(self, table: Table) -> None:
        """Take the current table, and forget the marks that left it."""
        self.held = table
        self._marks = {target: mark for mark, target in table.items()}

    def of(self, target: datapath.ProbeTarget) -> int:
        """Return the mark of a target, and keep it in the table."""
        if target not in self._marks:
            numbers = self._numbers
            place = home(target) % len(numbers)
            while numbers[place] in self.held or (
                    numbers[place] in self.wanted):
                place = (place + 1) % len(numbers)
            self._marks[target] = numbers[place]
        mark = self._marks[target]
        self.wanted[mark] = target
        return mark


def home(target: datapath.ProbeTarget) -> int:
    """Return the number where the search for a target's mark begins."""
    numbers = [int(target.encapsulation), target.dscp, target.sid_function]
    if target.port:  # no port: the same number as in releases without ports
        numbers.append(target.port)
    text = ' '.join([target.vip, target.member,
                     *map(str, numbers),
                     *(map(str, target.tunnel) if target.tunnel else ())])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], 'big')


class _Problems:
    """Why probes do not go through the datapath, by subject: the table, an
    uplink or a VIP. Changes are logged."""

    def __init__(self) -> None:
        self._by_subject: dict[str, str] = {}

    def note(self, subject: str, problem: str | None) -> None:
        """Keep the current problem of a subject, or that it has none."""
        before = self._by_subject.get(subject)
        if problem == before:
            return
        if problem:
            self._by_subject[subject] = problem
            LOG.error('%s.', problem)
        else:
            del self._by_subject[subject]
            LOG.info('Probes go through the datapath again (%s).', subject)

    def keep(self, subjects: Set[str]) -> None:
        """Forget all other subjects."""
        for subject in self._by_subject.keys() - subjects:
            del self._by_subject[subject]

    def report(self) -> list[str]:
        return sorted(self._by_subject.values())


class _Uplinks:
    """The program at the interfaces that probes may leave by, and the routes
    of VIPs, which have to lead there."""

    def __init__(self, dataplane: datapath.Datapath, kernel: netlink.Kernel,
                 names: Sequence[str], problems: _Problems) -> None:
        self._datapath = dataplane
        self._kernel = kernel
        self._names = names
        self._problems = problems
        self._attached: dict[int, str] = {}  # index → name
        self._routes: Any = None
        # VIP → index of the device of its route.
        self._devices: dict[str, int | None] = {}

    def attach(self, to_all: bool = False) -> bool:
        """Attach the program to uplinks that may not have it, or to all;
        return whether uplinks have changed."""
        before, indexes = self._attached, {}
        for name in self._names:
            try:
                index = socket.if_nametoindex(name)
                if to_all or index not in before:
                    self._datapath.attach_probe(index)
            except OSError as error:
                self._problems.note(
                    name, f'{name} sends no probes through the datapath: '
                    f'{error.strerror}')
            else:
                self._problems.note(name, None)
                indexes[index] = name
        self._attached = indexes
        return indexes != before

    def read_routes(self) -> bool:
        """Return whether the kernel's routes have changed."""
        routes = self._kernel.routes()
        if routes == self._routes:
            return False
        self._routes = routes
        self._devices = {}
        return True

    def carry(self, vip: str) -> bool:
        """Return whether a VIP's route leaves by an uplink with a program."""
        if vip not in self._devices:
            self._devices[vip] = self._find_device(vip)
        device = self._devices[vip]
        if device in self._attached:
            self._problems.note(vip, None)
            return True
        if device is None:
            why = 'has no route'
        else:
            why = f'leaves by {_name_of(device)}, which is no uplink'
        self._problems.note(vip, 'Members are probed at their own addresses '
                            f'only: what goes to {vip} {why}')
        return False

    def _find_device(self, vip: str) -> int | None:
        try:
            return self._kernel.route_device(
                vip, self._datapath.probe_marks[0])
        except OSError as error:
            LOG.debug('No route to %s: %s', vip, error)
            return None


class Probes:
    """Keeps the table and the programs; for the worker's thread only.

    :param kernel: netlink.Kernel of this thread.
    :param uplinks: names of the interfaces that probes may leave by.
    :param enabled: [agent] probe_through_datapath. If false, the table and
        programs of an earlier agent are removed.
    :ivar version: changes whenever results of ``mark`` may change.
    """

    def __init__(self, dataplane: datapath.Datapath, kernel: netlink.Kernel,
                 uplinks: Sequence[str], enabled: bool) -> None:
        self._datapath = dataplane
        self._enabled = enabled
        self._has_leftovers = not enabled
        self._problems = _Problems()
        self._uplinks = _Uplinks(dataplane, kernel, uplinks, self._problems)
        self._lasting = {'table', *uplinks}  # subjects that are not VIPs
        self._vips: set[str] = set()  # requested in this pass
        self._marks: Marks | None = None
        # Marks in the checks files; None: unknown.
        self._named: Set[int] | None = None
        self.version = 0

    def begin(self) -> None:
        """Begin a pass: read the table, attach programs, read routes."""
        if not self._enabled:
            return
        marks, self._marks = self._marks, None
        self._vips = set()
        try:
            held = self._datapath.probes()
            if not held:
                self._datapath.set_probes({})  # creates the table
        except datapath.DatapathError as error:
            # The rest of the pass works without these probes.
            self._problems.note('table', 'Members are probed at their own '
                                f'addresses only: {error.text}')
            self.version += 1
            return
        self._problems.note('table', None)
        if marks is None or marks.wanted or held != marks.held:
            # The last pass has failed, or the table was changed since.
            marks = Marks(held, self._datapath.probe_marks)
            self.version += 1
        self._marks = marks
        if self._uplinks.attach(to_all=True) | self._uplinks.read_routes():
            self.version += 1

    def attach(self) -> None:
        """Attach the program to uplinks that may not have it."""
        if self._marks is not None and self._uplinks.attach():
            self.version += 1

    def mark(self, vip: str, member: datapath.MemberName,
             settings: datapath.Settings,
             tunnel: datapath.Tunnel | None = None) -> int | None:
        """Return the mark of probes to a VIP that must reach a member, through
        its tunnel if it has one.

        Return None if the option is off, or if the datapath could not forward
        such probes.
        """
        if self._marks is None:
            return None
        target = datapath.ProbeTarget(
            vip, member.address, settings.encapsulation, settings.dscp,
            settings.sid_function, member.port, tunnel)
        if not _is_possible(target):
            return None
        self._vips.add(vip)
        return self._marks.of(target) if self._uplinks.carry(vip) else None

    def targets(self, marks: Iterable[int]) -> Table:
        """Return mark → target, for marks assigned in this pass."""
        return {mark: self._marks.wanted[mark] for mark in marks} if (
            self._marks) else {}

    def keep(self, targets: Table, vips: Set[str]) -> None:
        """Keep marks of an earlier pass with the same ``version``.

        :param targets: result of ``targets``.
        :param vips: the VIPs that ``mark`` was called with.
        """
        self._vips |= vips
        if self._marks is not None:
            self._marks.wanted.update(targets)

    def set(self) -> None:
        """Set all marks that the next checks files will contain."""
        marks = self._marks
        if marks is None:
            return
        table = {
            **{mark: target for mark, target in marks.held.items()
               if self._named is None or mark in self._named},
            **marks.wanted}
        if table != marks.held:
            self._datapath.set_probes(table)
            marks.set(table)
        marks.wanted = {}

    def written(self, marks: Set[int]) -> None:
        """End a pass: the checks files are written and have these marks."""
        self._problems.keep(self._vips | self._lasting)
        before, self._named = self._named, marks
        if self._has_leftovers and before == marks == set():
            # The last marks left the files a pass ago.
            if self._datapath.remove_probes():
                LOG.info('Probes no longer go through the datapath.')
            self._has_leftovers = False

    def report(self) -> dict[str, Any]:
        """Return problems and outcomes for the operator, as JSON types."""
        if not self._enabled:
            return {}
        return {'probes': {
            'problems': self._problems.report(),
            'outcomes': {outcome.name.lower(): count for outcome, count
                         in self._datapath.probe_outcomes().items()
                         if count}}}


def _is_possible(target: datapath.ProbeTarget) -> bool:
    """Return whether the datapath accepts the target; where it does not, it
    refuses the service too."""
    vip, member = (ipaddress.ip_address(address)
                   for address in (target.vip, target.member))
    if (member.is_unspecified or member.is_multicast
            or (member.version == 4 and member.packed[0] >= 224)):
        return False
    if target.tunnel:
        return True
    if target.encapsulation == datapath.Encapsulation.DSCP:
        return vip.version == member.version
    return (target.encapsulation != datapath.Encapsulation.SRV6
            or member.version == 6)


def _name_of(index: int) -> str:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return f'interface {index}'

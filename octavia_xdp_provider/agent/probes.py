# SPDX-License-Identifier: Apache-2.0
"""Probes that reach a member as traffic does: inside its encapsulation.

A probe to a VIP carries a mark, and the datapath's table of marks says to
which member, and how, it is sent on (octavia_xdp.h). The table is set before
the checks file asks for probes with new marks. Marks leave it a pass after
their checks have left the file: the checker may still be sending.
"""

import hashlib
import ipaddress
import socket

from oslo_log import log as logging

from octavia_xdp_provider.node import datapath

LOG = logging.getLogger(__name__)


class Marks:
    """Gives each target a mark of its own.

    A target that has one in the table keeps it, also over a restart. Others
    get one that no target in the table has, so that no mark ever changes its
    member while its probes may be in flight.

    :param held: the table, mark → datapath.ProbeTarget.
    :param numbers: the range of marks that there are.
    """

    def __init__(self, held, numbers):
        self._numbers = numbers
        self.wanted = {}  # mark → target
        self.set(held)

    def again(self):
        """Another pass begins, and the table is as it was."""
        self.wanted = {}

    def set(self, table):
        """This is the table now."""
        self.held = table
        # Those that are in it no more are forgotten.
        self._marks = {target: mark for mark, target in table.items()}

    def of(self, target):
        """The mark of a target, which is wanted from now on."""
        mark = self._marks.get(target)
        if mark is None:
            numbers = self._numbers
            place = home(target) % len(numbers)
            while (mark := numbers[place]) in self.held or (
                    mark in self.wanted):
                place = (place + 1) % len(numbers)
            self._marks[target] = mark
        self.wanted[mark] = target
        return mark


def home(target):
    """A number by which the mark of a target is chosen, if nobody has it."""
    numbers = [target.encapsulation, target.dscp, target.sid_function]
    if target.port:  # others have the home that they had before there were any
        numbers.append(target.port)
    text = ' '.join([target.vip, target.member,
                     *(str(int(number)) for number in numbers),
                     *(map(str, target.tunnel) if target.tunnel else ())])
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], 'big')


class Probes:
    """Keeps table and programs; belongs to the worker's thread.

    :param kernel: netlink.Kernel of this thread.
    :param uplinks: names of the interfaces that probes may leave by.
    :param enabled: [agent] probe_through_datapath. If not, what was there
        before is removed.
    :ivar version: another one whenever answers of ``mark`` may be others.
    """

    def __init__(self, dataplane, kernel, uplinks, enabled):
        self._datapath = dataplane
        self._kernel = kernel
        self._uplinks = uplinks
        self._enabled = enabled
        self._lasting = {'table', *uplinks}  # what no pass asks for
        self._marks = None
        self._named = None   # marks in the checks file; None: not known
        self._attached = {}  # index → name
        self._routes = None
        self._devices = {}   # VIP → index of the device of its route
        self._problems = {}  # what → why
        self._vips = set()   # that a pass has asked for
        self._left = not enabled  # what is there is to be removed
        self._table = None   # that the last pass has left
        self.version = 0

    def begin(self):
        """Look at what is there; begins a pass."""
        if not self._enabled:
            return
        marks, self._marks = self._marks, None
        self._vips = set()
        try:
            held = self._datapath.probes()
            if not held:
                self._datapath.set_probes({})  # there is a table from now on
        except datapath.DatapathError as error:
            # All else can be made true without.
            self._note('table', 'Members are probed at their own addresses '
                       f'only: {error.text}')
            self.version += 1
            return
        self._note('table', None)
        if marks is not None and held == self._table:
            marks.again()
        else:
            marks = Marks(held, self._datapath.probe_marks)
            self.version += 1
        self._marks = marks
        attached, self._attached = self._attached, {}
        self._attach()
        routes = self._kernel.routes()
        if routes != self._routes:
            self._routes = routes
            self._devices = {}
            self.version += 1
        elif attached != self._attached:
            self.version += 1

    def attach(self):
        """Put the program where it is not known to be."""
        attached = self._attached
        self._attach()
        if attached != self._attached:
            self.version += 1

    def _attach(self):
        if self._marks is None:
            return
        found = {}
        for name in self._uplinks:
            try:
                index = socket.if_nametoindex(name)
                if index not in self._attached:
                    self._datapath.attach_probe(index)
            except OSError as error:
                self._note(name, f'{name} sends no probes through the '
                           f'datapath: {error.strerror}')
            else:
                self._note(name, None)
                found[index] = name
        self._attached = found

    def mark(self, vip, member, settings, tunnel=None):
        """The mark of probes to a VIP that are to reach a
        datapath.MemberName, through its datapath.Tunnel if it has one.

        None where there is none: the option is off, or such a probe would
        not pass the program.
        """
        if self._marks is None:
            return None
        target = datapath.ProbeTarget(
            vip, member.address, settings.encapsulation, settings.dscp,
            settings.sid_function, member.port, tunnel)
        if not _is_possible(target) or not self._leaves(vip):
            return None
        return self._marks.of(target)

    def targets(self, marks):
        """Mark → target, of marks that this pass has given."""
        return {mark: self._marks.wanted[mark] for mark in marks}

    def keep(self, targets, vips):
        """Ask for marks of an earlier pass once more, of the same version.

        :param targets: as ``targets`` returned them.
        :param vips: that ``mark`` was asked about.
        """
        self._vips |= vips
        if self._marks is not None:
            self._marks.wanted.update(targets)

    def set(self):
        """Let the table have all that the coming checks file names."""
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
        self._table = table

    def written(self, marks):
        """The checks file has been written, with these; ends a pass."""
        for what in self._problems.keys() - self._vips - self._lasting:
            del self._problems[what]
        before, self._named = self._named, marks
        if self._left and before == marks == set():
            # A pass after the last marks have left the file.
            if self._datapath.remove_probes():
                LOG.info('Probes no longer go through the datapath.')
            self._left = False

    def report(self):
        """For the operator, as JSON."""
        if not self._enabled:
            return {}
        return {'probes': {
            'problems': sorted(self._problems.values()),
            'outcomes': {outcome.name.lower(): count for outcome, count
                         in self._datapath.probe_outcomes().items()
                         if count}}}

    def _leaves(self, vip):
        """Whether probes to a VIP leave by an interface with the program."""
        self._vips.add(vip)
        if vip not in self._devices:
            self._devices[vip] = self._ask(vip)
        device = self._devices[vip]
        if device in self._attached:
            self._note(vip, None)
            return True
        if device is None:
            why = 'has no route'
        else:
            why = f'leaves by {_name_of(device)}, which is no uplink'
        self._note(vip, 'Members are probed at their own addresses only: '
                   f'what goes to {vip} {why}')
        return False

    def _ask(self, vip):
        try:
            return self._kernel.route_device(
                vip, self._datapath.probe_marks[0])
        except OSError as error:
            LOG.debug('No route to %s: %s', vip, error)
            return None

    def _note(self, what, problem):
        """Keep a problem, or None, for the report; log it if it is new."""
        before = self._problems.get(what)
        if problem == before:
            return
        if problem:
            self._problems[what] = problem
            LOG.error('%s.', problem)
        else:
            del self._problems[what]
            LOG.info('Probes go through the datapath again (%s).', what)


def _is_possible(target):
    """Whether the datapath takes it; else it refuses the service as well."""
    vip, member = (ipaddress.ip_address(one)
                   for one in (target.vip, target.member))
    if (member.is_unspecified or member.is_multicast
            or (member.version == 4 and member.packed[0] >= 224)):
        return False
    if target.tunnel:
        return True
    if target.encapsulation == datapath.Encapsulation.DSCP:
        return vip.version == member.version
    return (target.encapsulation != datapath.Encapsulation.SRV6
            or member.version == 6)


def _name_of(index):
    try:
        return socket.if_indextoname(index)
    except OSError:
        return f'interface {index}'

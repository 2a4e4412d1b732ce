# SPDX-License-Identifier: Apache-2.0
"""Keeps the datapath's uplinks in line with the kernel's state.

This runs in a thread of its own, so that an uplink without carrier or next
hop is taken out at once, whatever else the agent does. It also records for the
health checker since when uplinks work, and checks them on its request.
"""

from collections.abc import Callable
import os
import threading
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from octavia_xdp_provider.agent import uplinks_file
from octavia_xdp_provider.agent.uplinks import outages
from octavia_xdp_provider.agent.uplinks import state
from octavia_xdp_provider.config import node_options
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import netlink
from octavia_xdp_provider.node import wakeup

LOG = logging.getLogger(__name__)

States = tuple[state.State, ...]

# Interval of looks without an event of the kernel.
RESCAN_S = 5.0
# The same while a next hop is being resolved, or after a failure.
RETRY_S = 1.0
# The same while a next hop has to answer a probe of the kernel.
ANSWER_LOOK_S = 0.25
# After the start, wait this long for answers of next hops before replacing
# the uplinks from before a restart.
FIRST_ANSWERS_S = 2.0


class _Programs:
    """The program at the devices of uplinks."""

    def __init__(self, dataplane: datapath.Datapath) -> None:
        self._datapath = dataplane
        self._attached: set[int] = set()  # indices of devices
        self._cleared = False

    def attach(self, kernel: netlink.Kernel, states: States) -> States:
        """Attach the program to devices that do not have it.

        :returns: the states; uplinks where that failed have a problem.
        """
        failed = {}
        indices = {uplink.ifindex for uplink in states if uplink.ifindex}
        for index in sorted(indices):
            uplink = next(state for state in states if state.ifindex == index)
            if index in self._attached and uplink.has_program:
                continue
            try:
                self._datapath.attach(index)
            except datapath.DatapathError as error:
                failed[index] = error.text
                self._attached.discard(index)
            else:
                self._attached.add(index)
                LOG.info('Datapath attached to %s.', uplink.device)
        self._attached &= indices
        if not self._cleared:
            self._detach_others(kernel, indices)
            self._cleared = True
        return tuple(
            uplink._replace(
                problem=f'the program cannot be attached to {uplink.device} '
                        f'({failed[uplink.ifindex]})')
            if uplink.ifindex in failed else uplink for uplink in states)

    def _detach_others(self, kernel: netlink.Kernel, wanted: set[int]
                       ) -> None:
        """Detach from devices that are no longer uplinks after a restart."""
        for link in kernel.links_with_program():
            if link.index in wanted:
                continue
            try:
                self._datapath.detach(link.index)
                LOG.info('Datapath detached from %s.', link.name)
            except datapath.DatapathError as error:
                # The program is most likely not ours.
                LOG.debug('%s: %s', link.name, error.text)


class _OutagesFile:
    """The file for the health checker, written when it changes."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._written: dict[int, uplinks_file.Family] | None = None
        self._failing = False

    def write(self, families: dict[int, uplinks_file.Family]) -> None:
        if families == self._written:
            return
        try:
            uplinks_file.write(self._directory, families)
        except OSError as error:
            if not self._failing:
                LOG.error('The health checker cannot be informed of outages '
                          '(%s), so failures during them count.', error)
            self._failing = True
        else:
            self._failing, self._written = False, families


class _NodeSettings:
    """The settings that apply to all services of the node.

    :ivar current: those of the datapath; None: unknown.
    """

    def __init__(self, conf: cfg.ConfigOpts, dataplane: datapath.Datapath
                 ) -> None:
        self._conf = conf
        self._datapath = dataplane
        self.current: datapath.NodeSettings | None = None

    def apply(self, states: States) -> datapath.NodeSettings:
        """Set what follows from options and states of uplinks; return it."""
        node = self._derive(states)
        if node != self.current:
            self._datapath.set_node(node)
            LOG.info('Sources of outer packets: %s.', ' and '.join(
                filter(None, (node.source_v4, node.source_v6)))
                or 'none, as no uplink has an address yet')
            self.current = node
        return node

    def report(self) -> dict[str, Any]:
        node = self.current
        return {'outer_source': node and node.source_v4,
                'outer_source_v6': node and node.source_v6}

    def _derive(self, states: States) -> datapath.NodeSettings:
        conf = self._conf
        flags = datapath.NodeFlag(0)
        for flag, wanted in (
                (datapath.NodeFlag.ECHO, conf.datapath.echo_reply),
                (datapath.NodeFlag.CLAMP_MSS, conf.datapath.clamp_mss),
                (datapath.NodeFlag.PASS_TOO_BIG,
                 conf.datapath.fragmentable == 'pass'),
                (datapath.NodeFlag.FIB, conf.datapath.next_hop == 'routes')):
            if wanted:
                flags |= flag
        return datapath.NodeSettings(
            self._source(conf.agent.outer_source, states, 'source_v4'),
            self._source(conf.agent.outer_source_v6, states, 'source_v6'),
            conf.agent.outer_entropy, conf.agent.outer_entropy_v6, flags,
            conf.datapath.icmp_rate)

    def _source(self, configured: str | None, states: States, field: str
                ) -> str | None:
        """Return the configured source, or the address of the first uplink,
        which is kept as long as some uplink has it."""
        if configured:
            return configured
        addresses: list[str] = [
            address for address
            in (getattr(uplink, field) for uplink in states) if address]
        before: str | None = self.current and getattr(self.current, field)
        if before in addresses or not addresses:
            return before
        return addresses[0]


class UplinkMonitor:
    """Attaches the program, and sets uplinks and outer sources.

    :param changed: called from the monitor's thread when ``ready``, ``lost``
        or ``families`` has changed.
    :param come_round: see Loops.watch.
    :ivar ready: families (4, 6) of outer packets that can leave by an uplink.
    :ivar lost: families that should leave by an uplink, but none works.
    """

    def __init__(self, conf: cfg.ConfigOpts, dataplane: datapath.Datapath,
                 changed: Callable[[], None],
                 come_round: Callable[[], None] = lambda: None) -> None:
        self._come_round = come_round
        self._directory = conf.agent.run_directory
        self._datapath = dataplane
        self._changed = changed
        self._stop = threading.Event()
        self._question = threading.Event()
        self._thread: threading.Thread | None = None
        self._kernel: netlink.Kernel
        self._events: netlink.Events
        self._uplinks = state.Uplinks(
            conf.agent.uplinks, node_options.gateways(conf),
            conf.datapath.next_hop == 'routes')
        self._outages = outages.Outages()
        self._file = _OutagesFile(self._directory)
        self._programs = _Programs(dataplane)
        self._node = _NodeSettings(conf, dataplane)
        # As of the last change of the datapath; None: unknown.
        self._applied: tuple[datapath.Uplink, ...] | None = None
        self._reported: tuple[Any, ...] = ()
        self._error: str | None = None
        self._first_answers_until = 0.0
        self.ready: frozenset[int] = frozenset()
        self.lost: frozenset[int] = frozenset()
        self.states: States = ()

    @property
    def families(self) -> dict[int, uplinks_file.Family]:
        """Return a copy of the states of both families."""
        return dict(self._outages.families)

    def start(self) -> None:
        """Make a first look, then keep looking."""
        self._kernel = netlink.Kernel()
        # Subscribe first, so that no event after the look is missed.
        self._events = netlink.Events()
        self._first_answers_until = time.monotonic() + FIRST_ANSWERS_S
        delay_s = self._look()
        wakeup.listen(os.path.join(self._directory,
                                   uplinks_file.SOCKET_NAME), self.ask)
        self._thread = threading.Thread(target=self._run, args=(delay_s,),
                                        name='uplinks')
        self._thread.start()

    def ask(self) -> None:
        """Check whether uplinks work now. For any thread."""
        self._question.set()
        self._events.wake()

    def stop(self) -> None:
        """End the thread; the datapath's uplinks stay."""
        self._stop.set()
        if self._thread:
            self._events.wake()
            self._thread.join()
            self._events.close()
            self._kernel.close()
            self._thread = None

    def report(self) -> dict[str, Any]:
        """Return uplinks and sources for the operator, as JSON types."""
        return {'uplinks': [uplink.report() for uplink in self.states],
                **self._node.report()}

    def _run(self, delay_s: float) -> None:
        while not self._stop.is_set():
            # One look handles all events so far.
            try:
                self._events.wait(delay_s, self._uplinks.concerns)
            except Exception:
                LOG.exception('An event could not be read.')
                self._stop.wait(RETRY_S)
            self._come_round()
            if not self._stop.is_set():
                delay_s = self._look()

    def _look(self) -> float:
        """Compare and correct; return the seconds until the next look."""
        now_ns = time.monotonic_ns()
        try:
            self._probe_next_hops(now_ns)
            snapshot = self._kernel.snapshot()
            states, hops = self._uplinks.look(snapshot)
            for link, address in sorted(hops):
                self._resolve(link, address)
            states = self._programs.attach(self._kernel, states)
            self._outages.look(states, snapshot, now_ns)
            self._file.write(self.families)
            self._apply(states)
        except Exception as error:
            # A lasting problem is logged once.
            if str(error) != self._error:
                LOG.exception('Uplinks could not be updated; trying again.')
            self._error = str(error)
            return RETRY_S
        self._error = None
        if self._outages.waits:
            return ANSWER_LOOK_S
        hurry = (hops or self._outages.silent
                 or any(uplink.problem for uplink in states))
        return RETRY_S if hurry else RESCAN_S

    def _probe_next_hops(self, now_ns: int) -> None:
        """Probe silent next hops, and if the checker asks those in use."""
        hops = set(self._outages.silent)
        if self._question.is_set():
            self._question.clear()
            hops |= self._outages.in_use
        for link, address in sorted(hops):
            try:
                self._kernel.confirm(link, address)
            except OSError as error:
                LOG.debug('%s cannot be asked: %s', address, error)
            else:
                self._outages.asked((link, address), now_ns)

    def _resolve(self, link: int, address: str) -> None:
        try:
            self._kernel.resolve(link, address)
        except OSError as error:
            LOG.debug('%s cannot be asked for: %s', address, error)

    def _apply(self, states: States) -> None:
        _log_changes(self.states, states)
        node = self._node.apply(states)
        if (self._applied is None
                and time.monotonic() < self._first_answers_until
                and any(uplink.waits for uplink in states)):
            self.states = states
            return
        wanted = self._uplinks.for_datapath(states)
        if wanted != self._applied:
            self._datapath.set_uplinks(wanted)
            self._applied = wanted
        self.ready = self._uplinks.ready(states, node)
        self.lost = frozenset(
            family for family, outage in self.families.items()
            if outage.since_ns is None) - self.ready
        # Not before the datapath has them: others read what is in use.
        self.states = states
        reported = self.ready, self.lost, {
            family: works.since_ns for family, works in self.families.items()}
        if reported != self._reported:
            self._reported = reported
            self._changed()


def _log_changes(before: States, states: States) -> None:
    known = {uplink.name: uplink for uplink in before}
    for uplink in states:
        last = known.get(uplink.name)
        if last is None or uplink.describe() != last.describe():
            worse = uplink.problem or (
                last and uplink.answering < last.answering) or (
                uplink.promiscuous and not (last and last.promiscuous))
            log = LOG.warning if worse else LOG.info
            log('%s', uplink.describe())

# SPDX-License-Identifier: Apache-2.0
"""An LB node: the real agent over a fake datapath."""

import contextlib
import ipaddress
import json
import pathlib
import shutil
import types

from octavia_xdp_provider.agent import link
from octavia_xdp_provider.agent import plans
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.process.agents import fetching
from octavia_xdp_provider.process.agents import reporting
from octavia_xdp_provider.process.agents import reports
from octavia_xdp_provider.process.agents import wanted
from octavia_xdp_provider.tests.unit.agent import reconciling
from octavia_xdp_provider.tests.unit.controller import network

VIP_NETWORK = ipaddress.ip_network('203.0.113.0/24')
_BOTH = frozenset((4, 6))


class Tables(reconciling.FakeDatapath):
    """Keeps services, with states of members as the library keeps them."""

    def set_services(self, wanted_services):
        changed, refused = super().set_services(wanted_services)
        for key, (_, members) in wanted_services.items():
            before = {member.address: member for member in self.held[key]}
            self.held[key] = [
                self._state(before[member.address], member)
                for member in members]
        return changed, refused

    @staticmethod
    def _state(before, member):
        known = before.known and bool(member.check)
        return before._replace(
            weight=member.weight, admin_up=member.admin_up,
            check=member.check, known=known,
            healthy=before.healthy if known else not member.check)

    def probe(self, dead):
        """Apply results of probes of all checked members.

        :param dead: addresses of members that do not answer.
        """
        for key, members in self.held.items():
            self.held[key] = [
                member._replace(known=True, healthy=member.address not in dead)
                if member.check else member for member in members]


class Worker:
    """worker.Worker without its thread: applies wanted state at once."""

    problems = ()

    def __init__(self, reconciler):
        self._reconciler = reconciler
        self.facts = reconciler.facts
        self.result = None

    def want(self, state):
        self.result = self._reconciler.reconcile(state, _BOTH)

    def wait_for(self, state, timeout):
        return self.has_applied(state)

    def has_applied(self, state):
        return (self.result is not None and state is not None
                and self.result.wanted.documents is state.documents)

    def tick(self):
        if self.result is None:
            self._reconciler.announce(frozenset())
        else:
            self._reconciler.announce(_BOTH)

    @property
    def held(self):
        return self._reconciler.held


class Node:
    """A node and its agent, which may be killed and started.

    :ivar running: whether the agent runs.
    :ivar connected: whether it reaches the broker.
    :ivar session: whether its BGP session is up.
    :ivar ahead_s: seconds by which its clock is ahead.
    """

    def __init__(self, conf, clock, host, directory, calls, heartbeats):
        self.host = host
        self.running = self.connected = self.session = True
        self.ahead_s = 0.0
        self._conf = conf
        self._clock = clock
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self._calls = calls
        self._heartbeats = heartbeats
        self.tables = Tables([])
        self.start()

    def start(self):
        """Start a new agent, which knows only what its predecessor stored."""
        self.running = True
        self.announce = announcements.Announcements(
            str(self.directory), [VIP_NETWORK])
        self.announce.status = self._announced
        policy = address_policy.AddressPolicy((VIP_NETWORK,), ())
        self._worker = Worker(reconcile.Reconciler(
            self._conf, types.SimpleNamespace(
                checks=f'{self.directory}/checks',
                handler_wakeup=f'{self.directory}/handler.wakeup'),
            self.tables, self.announce, plans.Inputs(lambda: policy)))
        self.fetcher = fetching.Fetcher(
            self._calls, self.host, wanted.Cache(self._wanted),
            self._clock.monotonic)
        self._link = link.Link(reporting.Ends(
            self.host, self._calls, self.fetcher, reports.Reporter(int(
                (self._clock.database_time() + self.ahead_s) * 1000)),
            self._worker, types.SimpleNamespace(read=self._state),
            types.SimpleNamespace(check_writable=lambda: None)), 10)
        if self.fetcher.wanted is not None:
            self._worker.want(self.fetcher.wanted)

    def reboot(self):
        """Lose the kernel's state and files in /run, but not those on disk.
        """
        self.tables = Tables([])
        for name in ('announcements.json', 'checks'):
            path = self.directory / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.start()

    def accept_database(self):
        """Do what the operations page says after a restored database."""
        shutil.rmtree(self._wanted, ignore_errors=True)
        self.start()

    @property
    def _wanted(self):
        return str(self.directory / 'wanted')

    def heartbeat(self):
        if self.running and self.connected:
            with contextlib.suppress(network.Lost):
                self._heartbeats.heartbeat(self.host)

    def turn(self):
        """Fetch, apply and report, as the link does in a round."""
        if not (self.running and self.connected):
            return
        with contextlib.suppress(network.Lost):
            self._link._turn()

    def probe(self, dead):
        self.tables.probe(dead)
        if self.running:
            self._worker.tick()

    def _announced(self):
        routes = frozenset(self.announce.wanted())
        return announcements.Status(
            routes if self.session else frozenset(),
            {'router': 'up' if self.session else 'down'})

    def _state(self, problems):
        return {'problems': list(problems), 'uplinks_ready': [4, 6],
                'health_checker': {}, 'services': len(self.tables.held),
                'services_max': 1024, 'members': 0, 'members_max': 16384,
                'bgp_established': [int(self.session), 1]}

    # State for comparison

    def documents(self):
        state = self.fetcher.wanted
        return {} if state is None else {
            key: document for key, (_, document)
            in state.documents.items()}

    def services(self):
        """Return (address, protocol, port) → {(member, weight, enabled, up)}.
        """
        return {tuple(key): {
            (member.address, member.weight, member.admin_up, member.healthy)
            for member in members}
            for key, members in self.tables.held.items()}

    def checks(self):
        """Return load balancer → {(type, address, port)}."""
        files = {path.stem: {
            (check['type'], check['address'], check.get('port'))
            for check in json.loads(path.read_text())['checks']}
            for path in (self.directory / 'checks').glob('*.json')}
        return {key: checks for key, checks in files.items() if checks}

    def routes(self):
        return {str(prefix.network_address)
                for prefix in self.announce.wanted()}



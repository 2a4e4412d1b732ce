# SPDX-License-Identifier: Apache-2.0
"""An LB node: the agent's own code over a datapath that forwards nothing."""

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
    """Keeps services; states of members are what the library keeps."""

    def set_services(self, wanted_services):
        changed, refused = super().set_services(wanted_services)
        for key, (_, members) in wanted_services.items():
            before = {one.address: one for one in self.held[key]}
            self.held[key] = [
                self._state(before[one.address], one) for one in members]
        return changed, refused

    @staticmethod
    def _state(before, member):
        known = before.known and bool(member.check)
        return before._replace(
            weight=member.weight, admin_up=member.admin_up,
            check=member.check, known=known,
            healthy=before.healthy if known else not member.check)

    def probe(self, dead):
        """Each member that is checked has been probed.

        :param dead: addresses of those that do not answer.
        """
        for key, members in self.held.items():
            self.held[key] = [
                one._replace(known=True, healthy=one.address not in dead)
                if one.check else one for one in members]


class Worker:
    """worker.Worker without its thread: applies what is wanted at once."""

    problems = ()

    def __init__(self, reconciler):
        self._reconciler = reconciler
        self.facts = reconciler.facts
        self.result = None

    def want(self, what):
        self.result = self._reconciler.reconcile(what, _BOTH)

    def wait_for(self, what, timeout):
        return self.has_applied(what)

    def has_applied(self, what):
        return (self.result is not None and what is not None
                and self.result.wanted.documents is what.documents)

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

    :ivar running: whether the agent does.
    :ivar connected: whether the broker is reached.
    :ivar session: whether its BGP session is up.
    :ivar ahead_s: what its clock is ahead of others'.
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
        """A new agent: what the one before it remembered is lost."""
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
        """The kernel forgets, files on disk stay, those of /run do not."""
        self.tables = Tables([])
        for name in ('announcements.json', 'checks'):
            path = self.directory / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.start()

    def accept_database(self):
        """What the operations page says after a database was restored."""
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
        """Ask, apply, report: as often as the link does by itself."""
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

    # What a test compares

    def documents(self):
        found = self.fetcher.wanted
        return {} if found is None else {
            key: document for key, (_, document)
            in found.documents.items()}

    def services(self):
        """(address, protocol, port) → {(member, weight, enabled, up)}."""
        return {tuple(key): {
            (one.address, one.weight, one.admin_up, one.healthy)
            for one in members} for key, members in self.tables.held.items()}

    def checks(self):
        """Load balancer → {(type, address, port)}."""
        found = {path.stem: {
            (check['type'], check['address'], check.get('port'))
            for check in json.loads(path.read_text())['checks']}
            for path in (self.directory / 'checks').glob('*.json')}
        return {key: checks for key, checks in found.items() if checks}

    def routes(self):
        return {str(prefix.network_address)
                for prefix in self.announce.wanted()}



# SPDX-License-Identifier: Apache-2.0
"""A pass over a fake datapath, recorded."""

import errno
import ipaddress
import json
import pathlib
import types
from unittest import mock

from octavia_xdp_provider.agent import plans
from octavia_xdp_provider.agent import reconcile
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.process import atomic_file
from octavia_xdp_provider.tests.unit import base

KEY = datapath.Key(base.VIP, 'TCP', 80)
PREFIX = f'{base.VIP}/32'
NETWORK = ipaddress.ip_network('203.0.113.0/24')
NETWORK_V6 = ipaddress.ip_network('2001:db8:113::/64')
VIP_V6 = '2001:db8:113::10'
BOTH = frozenset((4, 6))
NEITHER = frozenset()


class PoolsDatapath:
    """Keeps pools as the library does."""

    def __init__(self):
        self.pools = []
        self.peers = None
        self.timeouts = datapath.NatTimeouts(240, 240, 60, 120)
        self.error = None
        self.seeks_s = 0
        self.calls = []  # what was done about peers, in order

    def nat_pools(self):
        return list(self.pools)

    def set_nat_pools(self, pools):
        if self.error:
            raise self.error
        self.pools = list(pools)

    def nat_timeouts(self):
        return self.timeouts

    def set_nat_timeouts(self, timeouts):
        if self.error:
            raise self.error
        self.timeouts = timeouts

    def nat_peers(self):
        return list(self.peers or ())

    def set_nat_peers(self, peers):
        if self.error:
            raise self.error
        self.peers = list(peers)
        self.calls.append(('peers', self.peers))

    def seeks_udp_s(self):
        return self.seeks_s

    def seek_udp(self, seconds):
        if self.error:
            raise self.error
        self.seeks_s = seconds
        self.calls.append(('seek', seconds))


class FakeDatapath(PoolsDatapath):
    """Keeps services as the library does; members are up when unchecked."""

    active = reply_bytes = 0  # of each service

    def __init__(self, events):
        super().__init__()
        self.held = {}
        self.given = {}
        self.events = events
        self.full = False
        self.histories = []

    def apply_history(self, key, changes):
        self.histories.append((key, changes))
        return True

    def services(self):
        return [datapath.Service(
            key, 0, 13313, len(members),
            sum(bool(state.healthy and state.admin_up and state.weight)
                for state in members), 1,
            datapath.Counters(3, 1500, 1), active=self.active,
            reply_bytes=self.reply_bytes)
            for key, members in sorted(self.held.items())]

    def summaries(self):
        return {service.key: datapath.Summary(
            (0, 1, hash(tuple(self.held[service.key]))), service.enabled,
            service.counters.bytes, service.counters.flows,
            service.drops, service.active, service.counters.packets,
            service.reply_bytes, flow_table_full=service.flow_table_full)
            for service in self.services()}

    def members(self, key):
        return self.held[key]

    def set_services(self, wanted):
        if self.full:
            return set(), dict.fromkeys(wanted, datapath.DatapathError(
                28, 'no room for another service'))
        changed = set()
        for key, (settings, members) in wanted.items():
            before = {state.address: state
                      for state in self.held.get(key, [])}
            self.held[key] = [
                before[member.address]._replace(check=member.check)
                if member.address in before else datapath.MemberState(
                    member.address, member.weight, member.check,
                    member.admin_up, not member.check, False, None)
                for member in members]
            if (settings, members) != self.given.get(key):
                self.events.append(('set', key))
                changed.add(key)
            self.given[key] = settings, members
        return changed, {}

    def delete_services(self, keys):
        for key in keys:
            del self.held[key], self.given[key]
            self.events.append(('delete', key))

    def set_health(self, key, healthy):
        self.held[key] = [state._replace(healthy=healthy, known=True)
                          for state in self.held[key]]


class ReconcilerTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.create_tempfiles(
            [('x', '')])[0].rpartition('/')[0]
        self.conf = self.load('[agent]\nwithdraw_grace = 0\n')
        self.events = []
        self.datapath = FakeDatapath(self.events)
        self.announce = announcements.Announcements(
            self.directory, [NETWORK, NETWORK_V6])
        real = self.announce.set

        def recorded(routes):
            routes = list(routes)
            changed = real(routes)
            if changed:
                self.events.append(('announce', tuple(
                    str(route.prefix) for route in routes)))
            return changed
        self.announce.set = recorded
        self.policy = address_policy.AddressPolicy(
            (NETWORK, NETWORK_V6), ())
        self.reconciler = self.make(self.conf)
        self.document = base.document()

    def make(self, conf, recheck=None, **inputs):
        return reconcile.Reconciler(
            conf, types.SimpleNamespace(
                checks=f'{self.directory}/checks',
                handler_wakeup=f'{self.directory}/handler.wakeup'),
            self.datapath, self.announce,
            plans.Inputs(lambda: self.policy, **inputs), recheck)

    def wanted(self, *documents):
        return reconcile.Wanted(7, {
            document['id']: (5, document) for document in documents})

    def run_pass(self, *documents, ready=BOTH):
        self.events.clear()
        return self.reconciler.reconcile(self.wanted(*documents), ready)

    def announced(self):
        return {str(prefix) for prefix in self.announce.wanted()}

    def checks_files(self):
        """Return the checks files' documents by load balancer id."""
        return {path.stem: json.loads(path.read_text()) for path in sorted(
            pathlib.Path(self.directory, 'checks').glob('*.json'))}

    def checks(self):
        return [check for document in self.checks_files().values()
                for check in document['checks']]

    def unmonitored(self):
        self.document['pools']['pool']['healthmonitor'] = None

    def full(self):
        """A run directory in which no file can be replaced."""
        return mock.patch.object(
            atomic_file, 'replace',
            side_effect=OSError(errno.ENOSPC, 'No space left on device'))

    def refuse(self):
        """Members are in a denied network from now on."""
        self.policy = address_policy.AddressPolicy(
            (NETWORK, NETWORK_V6), (ipaddress.ip_network('198.18.0.0/15'),))

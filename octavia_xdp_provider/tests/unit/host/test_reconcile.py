# SPDX-License-Identifier: Apache-2.0
"""Calls that a pass makes to reach the wanted state, and no others."""

import fixtures

from octavia_xdp_provider.host import address_sets
from octavia_xdp_provider.host import reconcile
from octavia_xdp_provider.host import settings
from octavia_xdp_provider.host import types
from octavia_xdp_provider.host.taps import Tap
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.host import fakes

TAP = Tap('tap0', 7)
SETTINGS = settings.Settings(types.Settings(2, '192.0.2.1'), (2,), 1500, ())
COMMON = {'networks': ['192.0.2.0/24'], 'peers': []}


class ReconcileTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.datapath = fakes.Datapath(self.folder)
        self.now = 0.0
        self.ended = []
        self.restart()

    def restart(self):
        self.reconciler = reconcile.Reconciler(
            self.datapath,
            address_sets.Numbers(f'{self.folder}/address-sets.json'),
            self.folder, lambda: 1000, self.ended.append,
            clock=lambda: self.now)

    def reconcile(self, wanted, **taps):
        """The calls of a pass; taps by "port" and "other"."""
        self.datapath.calls.clear()
        ids = {'port': fakes.PORT, 'other': fakes.OTHER}
        self.reconciler.reconcile(
            wanted, {ids[name]: tap for name, tap in taps.items()})
        return self.datapath.calls

    def held(self, key=fakes.PORT):
        held = self.reconciler.held[key]
        return held['ifindex'], held['error']


class TestPorts(ReconcileTestCase):

    def test_programs_port_entries_in_this_order(self):
        calls = self.reconcile(fakes.wanted(fakes.port(fakes.entry(5))),
                               port=TAP)
        self.assertEqual(['attach', 'attach', 'set_port', 'set_entry'],
                         calls)
        self.assertEqual(['tap-in-7', 'tap-out-7'], self.datapath.pinned())
        self.assertEqual((7, None), self.held())
        self.assertEqual(types.Entry(
            5, fakes.PORT, '203.0.113.10', 80, '10.0.0.5', 8080, 'tcp',
            fakes.MAC, fakes.GATEWAY_MAC, 1402),
            self.datapath.held_entries[5])
        self.assertEqual(
            (types.Rule(4, 'tcp', (8080, 8080), '198.51.100.0/24'),),
            self.datapath.rules[fakes.PORT])

    def test_second_pass_and_a_new_process_change_nothing(self):
        wanted = fakes.wanted(fakes.port(fakes.entry(5)))
        self.reconcile(wanted, port=TAP)
        self.assertEqual([], self.reconcile(wanted, port=TAP))
        held = self.reconciler.held
        self.reconcile(wanted, port=TAP)
        self.assertIs(held, self.reconciler.held)
        self.restart()
        # Neither can be listed; the library finds that nothing has changed.
        self.assertEqual({'attach', 'set_port'},
                         set(self.reconcile(wanted, port=TAP)))

    def test_port_without_a_tap_waits_with_its_entries(self):
        wanted = fakes.wanted(fakes.port(fakes.entry(5)))
        self.assertEqual(['set_port', 'set_entry'], self.reconcile(wanted))
        self.assertEqual((None, None), self.held())
        self.assertEqual(['attach', 'attach', 'set_port'],
                         self.reconcile(wanted, port=TAP))
        self.assertEqual((7, None), self.held())

    def test_tap_that_comes_again_is_another_interface(self):
        wanted = fakes.wanted(fakes.port(fakes.entry(5)))
        self.reconcile(wanted, port=TAP)
        self.reconcile(wanted, port=TAP._replace(ifindex=None))
        self.assertEqual([], self.datapath.pinned())
        self.assertEqual((None, None), self.held())
        self.reconcile(wanted, port=TAP._replace(ifindex=9))
        self.assertEqual(['tap-in-9', 'tap-out-9'], self.datapath.pinned())
        self.assertEqual(9, self.datapath.held_ports[fakes.PORT].ifindex)

    def test_tap_that_cannot_be_served_is_named(self):
        self.reconcile(fakes.wanted(fakes.port(fakes.entry(5))),
                       port=Tap('vhu0', None, 'vhu0 is a vhost-user port'))
        self.assertEqual((None, 'vhu0 is a vhost-user port'), self.held())

    def test_unwanted_port_is_removed_completely(self):
        both = fakes.wanted(fakes.port(fakes.entry(5)), fakes.port(
            fakes.entry(6), port_id=fakes.OTHER))
        self.reconcile(both, port=TAP, other=Tap('tap1', 8))
        self.reconcile(fakes.wanted(fakes.port(fakes.entry(5))), port=TAP,
                       other=Tap('tap1', 8))
        self.assertEqual({fakes.PORT}, set(self.datapath.held_ports))
        self.assertEqual({5}, set(self.datapath.held_entries))
        self.assertEqual(['tap-in-7', 'tap-out-7'], self.datapath.pinned())
        self.assertEqual({fakes.PORT}, set(self.reconciler.held))

    def test_programs_that_a_killed_agent_left_go(self):
        self.datapath.attach(types.Hook.TAP_IN, 99)
        self.reconcile(fakes.wanted())
        self.assertEqual([], self.datapath.pinned())

    def test_entry_removed_and_key_of_another_listener(self):
        self.reconcile(fakes.wanted(fakes.port(
            fakes.entry(5), fakes.entry(6, vip_port=443))), port=TAP)
        calls = self.reconcile(fakes.wanted(fakes.port(
            fakes.entry(6, vip_port=81)), generation=2), port=TAP)
        self.assertEqual(['delete_entry', 'delete_entry', 'set_entry'],
                         calls)
        self.assertEqual(81, self.datapath.held_entries[6].vip_port)

    def test_counters_of_what_goes_are_read_before(self):
        self.reconcile(fakes.wanted(
            fakes.port(fakes.entry(5), fakes.entry(6, vip_port=443)),
            fakes.port(fakes.entry(7), port_id=fakes.OTHER)))
        self.assertEqual([], self.ended)
        self.reconcile(fakes.wanted(fakes.port(fakes.entry(5)),
                                    generation=2))
        entries, = self.ended
        self.assertEqual({6, 7}, {state.entry.key for state in entries})

    def test_key_that_moves_to_another_port(self):
        self.reconcile(fakes.wanted(
            fakes.port(fakes.entry(5)),
            fakes.port(port_id=fakes.OTHER)))
        self.reconcile(fakes.wanted(
            fakes.port(),
            fakes.port(fakes.entry(5), port_id=fakes.OTHER), generation=2))
        self.assertEqual(fakes.OTHER, self.datapath.held_entries[5].port_id)
        self.assertEqual((None, None), self.held(fakes.OTHER))

    def test_new_mac_keeps_the_entry(self):
        self.reconcile(fakes.wanted(fakes.port(fakes.entry(5))), port=TAP)
        calls = self.reconcile(fakes.wanted(fakes.port(
            fakes.entry(5, gateway_mac=fakes.MAC)), generation=2), port=TAP)
        self.assertNotIn('delete_entry', calls)
        self.assertEqual(fakes.MAC,
                         self.datapath.held_entries[5].gateway_mac)

    def test_foreign_change_of_the_datapath_is_repaired(self):
        wanted = fakes.wanted(fakes.port(fakes.entry(5)))
        self.reconcile(wanted, port=TAP)
        self.datapath.delete_port(fakes.PORT)
        self.datapath.detach(types.Hook.TAP_OUT, 7)
        self.reconcile(wanted, port=TAP)
        self.assertEqual({5}, set(self.datapath.held_entries))
        self.assertEqual(['tap-in-7', 'tap-out-7'], self.datapath.pinned())

    def test_what_cannot_be_listed_is_set_again_now_and_then(self):
        wanted = fakes.wanted(fakes.port(), fakes.address_set('10.0.0.0/8'))
        self.reconcile(wanted, port=TAP)
        self.now += reconcile.AGAIN_S
        self.assertEqual({'attach', 'set_port', 'set_address_set'},
                         set(self.reconcile(wanted, port=TAP)))


class TestErrors(ReconcileTestCase):

    def both(self):
        return fakes.wanted(fakes.port(fakes.entry(5)), fakes.port(
            fakes.entry(6), port_id=fakes.OTHER))

    def test_one_ports_error_does_not_stop_others(self):
        for failing in (('set_port', fakes.PORT), ('set_entry', 5),
                        ('attach', 7)):
            self.datapath = fakes.Datapath(
                self.useFixture(fixtures.TempDir()).path)
            self.folder = str(self.datapath.links.parent)
            self.restart()
            self.datapath.failing = {failing}
            self.reconcile(self.both(), port=TAP, other=Tap('tap1', 8))
            self.assertEqual(f'{failing[0]} fails', self.held()[1])
            self.assertEqual((8, None), self.held(fakes.OTHER))
            self.datapath.failing = set()
            self.reconcile(self.both(), port=TAP, other=Tap('tap1', 8))
            self.assertEqual((7, None), self.held())
            self.assertEqual({5, 6}, set(self.datapath.held_entries))

    def test_malformed_document_is_refused_by_name_and_keeps_what_is(self):
        self.reconcile(self.both(), port=TAP)
        bad = fakes.wanted(
            {**fakes.port(fakes.entry(5)), 'version': 2},
            fakes.port(port_id=fakes.OTHER), generation=2)
        self.reconcile(bad, port=TAP)
        self.assertIn('version', self.held()[1])
        self.assertEqual(7, self.held()[0])
        self.assertEqual({5}, set(self.datapath.held_entries))
        self.assertEqual(['tap-in-7', 'tap-out-7'], self.datapath.pinned())

    def test_underlay_without_an_interface(self):
        self.datapath.failing = {('attach', 2)}
        self.assertEqual(['attach fails'],
                         self.reconciler.prepare(SETTINGS, COMMON))
        self.assertEqual(['192.0.2.0/24'], self.datapath.networks)

    def test_settings_are_written_by_each_pass(self):
        """With them the library reads the MTU by which answers leave."""
        for _ in range(2):
            self.reconciler.prepare(SETTINGS, COMMON)
        self.assertEqual(2, self.datapath.calls.count('set_settings'))

    def test_interface_that_left_the_underlay(self):
        self.reconciler.prepare(SETTINGS, None)
        self.assertIsNone(self.datapath.networks)
        self.assertEqual(['nic-2'], self.datapath.pinned())
        self.reconciler.prepare(SETTINGS._replace(underlay=(3,)), COMMON)
        self.assertEqual(['nic-3'], self.datapath.pinned())

    def test_networks_of_hypervisors(self):
        """They go where a controller does not speak of them any more."""
        self.reconciler.prepare(SETTINGS, {**COMMON, 'peers': ['10.2.0.0/16']})
        self.assertEqual(['10.2.0.0/16'], self.datapath.peers)
        self.reconciler.prepare(SETTINGS, None)
        self.assertEqual(['10.2.0.0/16'], self.datapath.peers)
        self.reconciler.prepare(SETTINGS, COMMON)
        self.assertEqual([], self.datapath.peers)

    def test_networks_of_proxy_nodes(self):
        self.reconciler.prepare(SETTINGS, {**COMMON,
                                           'proxies': ['10.3.0.0/16']})
        self.assertEqual(['10.3.0.0/16'], self.datapath.proxies)
        self.reconciler.prepare(SETTINGS, COMMON)
        self.assertEqual([], self.datapath.proxies)

    def test_networks_that_cannot_be_set_are_set_again(self):
        self.datapath.failing = {'set_peers'}
        common = {**COMMON, 'peers': ['10.2.0.0/16']}
        self.assertEqual(['set_peers fails'],
                         self.reconciler.prepare(SETTINGS, common))
        self.datapath.failing = set()
        self.assertEqual([], self.reconciler.prepare(SETTINGS, common))
        self.assertEqual(['10.2.0.0/16'], self.datapath.peers)


class TestAddressSets(ReconcileTestCase):

    def wanted(self, *networks, generation=1):
        return fakes.wanted(
            fakes.address_set(*networks), fakes.port(rules=[fakes.rule(
                remote_network=None, address_set=fakes.GROUP)]),
            generation=generation)

    def test_set_comes_before_the_rule_and_goes_after_it(self):
        self.assertEqual(['set_address_set', 'set_port'],
                         self.reconcile(self.wanted('10.0.0.0/8')))
        rule, = self.datapath.rules[fakes.PORT]
        self.assertEqual({rule.address_set: ['10.0.0.0/8']},
                         self.datapath.sets)
        calls = self.reconcile(fakes.wanted(fakes.port(rules=[]),
                                            generation=2))
        self.assertEqual(['set_port', 'set_address_set'], calls)
        self.assertEqual({rule.address_set: []}, self.datapath.sets)

    def test_set_that_went_while_no_agent_ran(self):
        self.reconcile(self.wanted('10.0.0.0/8'))
        self.restart()
        self.reconcile(fakes.wanted(fakes.port(rules=[]), generation=2))
        self.assertEqual([[]], list(self.datapath.sets.values()))

    def test_set_that_is_not_here_lets_nobody_in(self):
        self.reconcile(fakes.wanted(fakes.port(rules=[fakes.rule(
            remote_network=None, address_set=fakes.GROUP)])))
        self.assertEqual((), self.datapath.rules[fakes.PORT])
        self.reconcile(self.wanted('10.0.0.0/8', generation=2))
        self.assertEqual(1, len(self.datapath.rules[fakes.PORT]))

    def test_number_stays_without_the_file_too(self):
        path = f'{self.folder}/some.json'
        number = address_sets.Numbers(path).give(fakes.GROUP)
        self.assertEqual(number, address_sets.Numbers(path).get(fakes.GROUP))
        other = address_sets.Numbers(f'{self.folder}/other.json')
        self.assertEqual(number, other.give(fakes.GROUP))

# SPDX-License-Identifier: Apache-2.0
"""A node with several interfaces is taken over: needs root."""

import os
import signal
import time

from octavia_xdp_provider.node import inspection
from octavia_xdp_provider.tests.functional.support import private_node
from octavia_xdp_provider.tests.functional.support import upgrading
from octavia_xdp_provider.tests.support import form


class TestSeveral(upgrading.WithPackets):

    UPLINKS = 3

    def changed(self, done):
        return {uplink.index: uplink.changes for uplink in done.interfaces}

    def all_change(self):
        return {self.index(uplink): True for uplink in self.uplinks}

    def run_upgrades(self, *layouts):
        before = self.program()
        with self.stream:
            for layout in layouts:
                time.sleep(0.2)
                for dry_run in (True, False):
                    self.assertEqual(self.all_change(), self.changed(
                        self.upgrade(layout, dry_run=dry_run)))
                    after = self.program()
                    for old, new in zip(before, after, strict=True):
                        self.assertEqual(dry_run, old == new)
                before = after
            time.sleep(0.2)

    @form.in_long_form
    def test_shared_maps_lose_no_packet(self):
        self.run_upgrades(1001, upgrading.LAYOUT, 1001)
        self.assert_nothing_lost()
        self.assert_counted()

    def test_copied_maps_lose_no_packet_and_move_few_flows(self):
        self.run_upgrades(1002, upgrading.LAYOUT, 1002)
        self.assert_nothing_lost(moved=12)
        self.assert_counted()


class TestRefusedHalfway(upgrading.WithPackets):
    """The kernel does not replace the program of one of three interfaces."""

    UPLINKS = 3

    def refuse(self, layout, updates):
        """A failed upgrade gives its reason, and changes nothing."""
        before = self.state()[2:], self.program()
        with self.stream:
            time.sleep(0.1)
            status, _, text = self.child_output(layout, link_updates=updates)
            self.assertEqual(1, status, text)
            self.assertIn('cannot replace the program of interface', text)
            self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))
            # it is as it was, without anybody having opened it
            self.assertEqual(before[1], self.program())
            time.sleep(0.2)
        self.assertEqual(before[0], self.state()[2:])
        return text

    @form.in_long_form
    def test_refused_switch_to_copied_maps_is_taken_back(self):
        for place in range(self.UPLINKS):
            self.stream = upgrading.Stream(self.peers())
            self.before = self.packets()
            self.refuse(1002, '.' * place + 'F')
            self.assert_nothing_lost(moved=16)
            # but for what the new program counted
            service, members = (now - then for now, then in zip(
                self.packets(), self.before, strict=True))
            self.assertEqual(service, members)
            if place == 0:
                self.assertEqual(self.stream.sent, service)

    @form.in_long_form
    def test_refused_rollback_changes_all_interfaces_in_the_end(self):
        """All interfaces get the old library's program all the same."""
        with self.stream:
            status, _, text = self.child_output(1002, link_updates='.FF')
            self.assertEqual(1, status, text)
            self.assertIn('going back: cannot replace', text)
            self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))
            time.sleep(0.2)
        self.assert_nothing_lost(moved=16)
        self.assertFalse(self.upgrade(upgrading.LAYOUT).changes)

    def test_rollback_that_fails_is_done_by_the_next_opener(self):
        """The next one to open the node finds what is left to do."""
        with self.stream:
            status, _, text = self.child_output(1002, link_updates='.FFF')
            self.assertEqual(1, status, text)
            self.assertIn('whoever opens the node next', text)
            time.sleep(0.2)
            with self.open_layout() as opened:
                self.assertEqual([], opened.faults())
            self.assertFalse(self.upgrade(upgrading.LAYOUT).changes)
            self.assertEqual({'links', 'maps'}, set(os.listdir(self.pins)))
        self.assert_nothing_lost(moved=24)


class TestInterfacesComeAndGo(upgrading.WithPackets):
    """While one takes over, before it changes the interfaces' programs."""

    UPLINKS = 2

    def setUp(self):
        super().setUp()
        self.more = upgrading.Uplink(2)
        self.add_interface(self.more)
        self.member_tool(self.peer, 'setup', '--any-source', self.more.peer)

    def go_on(self, process):
        process.send_signal(signal.SIGCONT)
        self.assertEqual(0, process.wait())

    def delete(self, uplink):
        private_node.command('ip', '-n', self.node, 'link', 'del',
                              uplink.name)

    def links(self):
        return set(os.listdir(os.path.join(self.pins, 'links')))

    def expect_links(self, *uplinks):
        """Exactly these have the program that is pinned."""
        indices = [self.index(uplink) for uplink in uplinks]
        done = self.upgrade(self.layout)
        self.assertFalse(done.changes)
        self.assertEqual(sorted(indices),
                         sorted(uplink.index for uplink in done.interfaces))
        self.assertEqual({str(index) for index in indices}, self.links())

    def vanish(self, layout, updates):
        """An interface that no flow uses: what it had would be lost."""
        self.attach(self.node_state, self.more)
        self.assertEqual(3, len(self.upgrade(layout,
                                             dry_run=True).interfaces))
        with self.stream:
            process = self.child(layout, link_updates=updates)
            self.wait_until_stopped(process)
            self.delete(self.more)
            self.go_on(process)
            self.layout = layout
            time.sleep(0.2)
            self.expect_links(*self.uplinks)

    def test_interface_that_vanishes_is_left_out(self):
        self.vanish(1001, 'S')
        self.assert_nothing_lost()
        self.assert_counted()

    @form.in_long_form
    def test_interface_may_vanish_after_the_first_has_changed(self):
        self.vanish(1002, '.S')
        self.assert_nothing_lost(moved=8)
        self.assert_counted()

    @form.in_long_form
    def test_uplink_that_was_gone_before_is_left_out(self):
        """Interfaces that the settings name may be absent."""
        self.uplinks.append(self.more)
        self.set_uplinks(self.node_state)
        self.uplinks.pop()
        self.delete(self.more)
        for layout in (1001, 1002, upgrading.LAYOUT):
            self.assertEqual(2, len(self.upgrade(layout,
                                                 dry_run=True).interfaces))
            self.upgrade(layout)
            with inspection.Inspection(
                    pin_directory=self.pins, lock_file=self.lock,
                    library=self.libraries[layout]) as opened:
                self.assertEqual(3, len(opened.uplinks()[0]))
        self.expect_links(*self.uplinks)

    @form.in_long_form
    def test_pin_of_a_vanished_interface_is_not_of_the_next_one(self):
        """A pin that outlived its interface says nothing of the next one."""
        self.attach(self.node_state, self.more)
        index = self.index(self.more)
        with self.stream:
            process = self.child(1001, link_updates='S')
            self.wait_until_stopped(process)
            self.delete(self.more)
            private_node.command('ip', '-n', self.node, 'link', 'add',
                                  'another', 'index', str(index), 'type',
                                  'veth', 'peer', 'name', 'other')
            self.go_on(process)
            self.layout = 1001
            time.sleep(0.2)
            self.expect_links(*self.uplinks)
        self.assertNotIn('prog/xdp', private_node.command(
            'ip', '-n', self.node, '-d', 'link', 'show', 'another'))
        self.assert_nothing_lost()
        self.assert_counted()

    def test_attaching_waits_for_the_upgrade(self):
        """An attachment waits, and then has to open the node again."""
        with self.stream:
            process = self.child(1002, link_updates='S')
            self.wait_until_stopped(process)
            user = self.python(
                'import sys\n'
                'from octavia_xdp_provider.node import datapath\n'
                'opened = datapath.Datapath(*sys.argv[1:3], create=False,'
                ' library=sys.argv[3])\n'
                'opened.attach(int(sys.argv[4]))',
                self.libraries[upgrading.LAYOUT], self.index(self.more))
            time.sleep(0.5)
            self.assertIsNone(user.poll())
            self.assertNotIn(str(self.index(self.more)), self.links())
            self.go_on(process)
            _, text = user.communicate()
            self.assertEqual(1, user.returncode)
            self.assertIn('map layout 1002', text)
            self.layout = 1002
            self.expect_links(*self.uplinks)
            with self.open_layout() as opened:
                self.attach(opened, self.more)
            self.expect_links(*self.uplinks, self.more)
        self.assert_nothing_lost(moved=8)
        self.assert_counted()

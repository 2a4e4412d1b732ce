# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch and OVN end on members' hypervisors, and start again.

What OVN carries itself, from VM to VM, stops or not, as it may. What clients
send to VIPs, and the answers, must not notice.
"""

import contextlib
import types

from lab import processes
from lab.fabric import client
from lab.ovn import host_agents
from lab.ovn import hypervisors
from octavia_xdp_provider.tests.e2e.support import zero_touch

CONNECTIONS = 12


class TestOpenVswitchAway(zero_touch.ZeroTouchTestCase):

    @contextlib.contextmanager
    def in_use(self):
        """A load balancer with clients of IPv4 and IPv6, whose connections
        last, and who make new ones all the time.

        :returns: a function that looks at both, and the balancer.
        """
        balancer = self.balancer('red', additional_vips=[
            {'subnet_id': self.subnet('vips-v6')}])
        second = types.SimpleNamespace(
            vip_address=balancer.additional_vips[0]['ip_address'])
        self.wait_routes(second)
        self.wait_enabled(second, len(hypervisors.NAMES))
        with contextlib.ExitStack() as stack:
            both = [(stack.enter_context(client.Connections(
                        self.lab, one.vip_address, zero_touch.PORT,
                        CONNECTIONS)),
                     stack.enter_context(client.Load(
                         self.lab, self.url(one), 30)))
                    for one in (balancer, second)]

            def check():
                for connections, load in both:
                    self.check_clients(connections, load)
            check()
            yield check, balancer
            check()
        for _connections, load in both:
            self.assertEqual([], load.answers.failures)
            # Both members have had some.
            self.assertEqual({self.vms['red', host]
                              for host in hypervisors.NAMES},
                             set(load.answers.count))

    def check_clients(self, connections, load):
        """What was established goes on, and new ones are made."""
        self.assertEqual(CONNECTIONS, connections.ask())
        wanted = load.answers.total + 10
        self.wait('new connections', lambda: load.answers.total > wanted)
        self.assertEqual([], load.answers.failures)

    def attached(self, host):
        """Programs at interfaces of a hypervisor: name of a pin → its inode,
        another one for what was attached again."""
        found = {pin.name: pin.stat().st_ino
                 for pin in host_agents.programs(self.lab, host, '*')}
        for kind in 'nic-', 'tap-in-', 'tap-out-':
            self.assertTrue([name for name in found
                             if name.startswith(kind)])
        return found

    def directly(self):
        """Whether a VM reaches the one on the other hypervisor past us."""
        first, second = (self.vms['red', host] for host in hypervisors.NAMES)
        return self.curl(first, self.ADDRESSES['hv2'], timeout=2) == second

    def ended(self, host, name, stop, start):
        """End a process; it runs again when the test is over."""
        def again():
            if not processes.alive(self.lab, hypervisors.process(host, name)):
                start(self.lab, host)
        self.addCleanup(again)
        stop(self.lab, host)

    def test_members_are_served_while_ovs_vswitchd_is_away(self):
        with self.in_use() as (check, _balancer):
            self.wait('direct traffic', self.directly)
            for host in hypervisors.NAMES:
                before = self.attached(host)
                self.ended(host, hypervisors.SWITCH,
                           hypervisors.stop_switch, hypervisors.start_switch)
                self.assertFalse(self.directly())
                check()
                self.assertEqual(before, self.attached(host))
                hypervisors.start_switch(self.lab, host)
                self.wait('direct traffic', self.directly)
                check()
                self.assertEqual(before, self.attached(host))
            self.wait_settled_hosts()

    def test_members_are_served_while_ovn_controller_is_away(self):
        with self.in_use() as (check, balancer):
            for host in hypervisors.NAMES:
                before = self.attached(host)
                port = self.ports[self.vms['red', host]]
                self.ended(host, hypervisors.CONTROLLER,
                           hypervisors.stop_controller,
                           hypervisors.start_controller)
                self.wait('a port that is DOWN', lambda port=port: (
                    not self.cloud.is_active(port)))
                check()
                self.assertEqual(
                    {(host, 'tunnel') for host in hypervisors.NAMES},
                    {(name, one['way'])
                     for name, one in self.listed(balancer).items()})
                hypervisors.start_controller(self.lab, host)
                self.wait('direct traffic', self.directly)
                self.wait('an ACTIVE port',
                          lambda port=port: self.cloud.is_active(port))
                check()
                self.assertEqual(before, self.attached(host))
            self.wait_settled_hosts()

# SPDX-License-Identifier: Apache-2.0
"""Load balancers of tenants whose members are VMs that know nothing of them.
"""

import contextlib
import sys

from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import links
from lab.fabric import nginx
from lab.ovn import host_agents
from lab.ovn import hypervisors
from lab.ovn import vms
from octavia_xdp_provider.tests.e2e.support import tenants

# Octavia's least for UDP.
MONITOR_DELAY = 3
PORT = 80
ECHO = 7777
EVERYBODY = {4: '0.0.0.0/0', 6: '::/0'}


class ZeroTouchTestCase(tenants.TenantsTestCase):
    """Listeners are on port 80, and members' stock servers on port 8080."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rules = {}
        for color, tenant in cls.tenants.items():
            cls._outside(cls._allow, color, tenant)

    @classmethod
    def _allow(cls, color, tenant):
        for version, network in EVERYBODY.items():
            cls.rules[color, version] = cls.cloud.allow(
                tenant, 'tcp', vms.HTTP_PORT, network)

    def balancer(self, color, version=4, hosts=hypervisors.NAMES,
                 protocol='TCP', member_port=vms.HTTP_PORT, monitor='HTTP',
                 **more):
        """A tenant's load balancer, whose members are ONLINE.

        :param hosts: the hypervisors on which its members are.
        """
        tenant = self.tenants[color]
        addresses, subnet = {
            4: (self.ADDRESSES, tenant.subnet_id),
            6: (self.ADDRESSES_V6, tenant.subnet_v6_id)}[version]
        self.sdk = self.connection(tenant.name).load_balancer
        balancer = self.create_balancer(version, **more, listeners=(
            self.listeners(({
                'name': host, 'address': addresses[host],
                'protocol_port': member_port, 'subnet_id': subnet}
                for host in hosts), PORT, protocol, monitor,
                delay=MONITOR_DELAY)))
        # Cleaned up by whom it was made.
        self.addCleanup(setattr, self, 'sdk', self.sdk)
        self.wait_routes(balancer)
        self.wait_online(balancer, hosts, protocol)
        return balancer

    def wait_online(self, balancer, hosts=hypervisors.NAMES, protocol='TCP'):
        """Wait until all members are, and take flows on each LB node."""
        pool, = self.sdk.pools(loadbalancer_id=balancer.id)
        sdk = self.sdk
        self.wait('members ONLINE', lambda: {
            'ONLINE'} == {member.operating_status
                          for member in sdk.members(pool)})
        self.wait_enabled(balancer, len(hosts), protocol, PORT)

    def start_echo(self, color):
        """Let a tenant's VMs answer datagrams, for the rest of the test."""
        for host in hypervisors.NAMES:
            vm = self.vms[color, host]
            name = f'{vm}-udp-echo'
            processes.start(self.lab, vm, name, [
                sys.executable, '-m', 'lab.fabric.udp_echo', ECHO, vm],
                cwd=paths.CHECKOUT)
            self.addCleanup(processes.stop, self.lab, name)

    def allow_echo(self, color, version=4):
        """Let everybody's datagrams in to them, for the rest of the test."""
        rule = self.cloud.allow(self.tenants[color], 'udp', ECHO,
                                EVERYBODY[version])
        self.addCleanup(self.cloud.network.delete_security_group_rule, rule)

    def echo_balancer(self, color, host, version=4):
        """A load balancer of one such VM.

        Of two, the one that is up first has all flows for an idle timeout.
        """
        return self.balancer(color, version, [host], 'UDP', ECHO,
                             'UDP-CONNECT')

    @contextlib.contextmanager
    def closed(self, color, balancer):
        """Without the rule that lets everybody in, as long as it lasts."""
        self.cloud.network.delete_security_group_rule(self.rules[color, 4])
        try:
            self.wait('end of answers',
                      lambda: not self.is_answered(balancer))
            yield
        finally:
            self.rules[color, 4] = self.cloud.allow(
                self.tenants[color], 'tcp', vms.HTTP_PORT, EVERYBODY[4])

    def listed(self, balancer):
        """What octavia-xdp-manage says of its members, by name."""
        return {row['name']: row for row in self.managed(
            'lb', 'members', balancer.id)}

    # Traffic

    def served(self, balancer, color, number=200):
        """Requests that must all be answered by the tenant's own VMs.

        :returns: name of the VM → how many it answered.
        """
        answers = client.requests(self.lab, self.url(balancer), number, 30)
        self.assertEqual([], answers.failures)
        self.assertLessEqual(set(answers.count), {
            self.vms[color, host] for host in hypervisors.NAMES})
        return answers.count

    def is_answered(self, balancer, timeout=2):
        """Whether a new connection is."""
        return bool(client.requests(self.lab, self.url(balancer), 1,
                                    timeout).count)

    def clients(self, vm):
        """Address of a client → its requests in the server's log."""
        requests = {}
        for line in nginx.access_log(self.lab, vm).read_text().splitlines():
            address = line.split()[0]
            requests[address] = requests.get(address, 0) + 1
        return requests

    # Hypervisors

    def entries(self, balancer):
        """What hypervisors have of a load balancer: hypervisor → rows."""
        return host_agents.entries_of(self.lab, balancer.vip_address, PORT)

    def use_way(self, host, encapsulation, underlay=links.UPLINK):
        """Let LB nodes reach a hypervisor this way for the rest of the test.

        :param underlay: the hypervisor's interface at which they do.
        """
        self.addCleanup(self._use_way, host, host_agents.ENCAPSULATIONS[host],
                        links.UPLINK)
        self._use_way(host, encapsulation, underlay)

    def _use_way(self, host, encapsulation, underlay):
        number = paths.number(host)
        wanted = (str(paths.sid_network(number)) if encapsulation == 'srv6'
                  else paths.underlay_address_v6(number)
                  if underlay == hypervisors.UNDERLAY_V6
                  else hypervisors.address(host))
        host_agents.write_configuration(self.lab, host, encapsulation,
                                        underlay)
        processes.restart(self.lab, host_agents.name(host))
        self.wait(f'{encapsulation} to {wanted} of {host}', lambda: (
            self.managed('host', 'show', host)['tunnels_to'] or ''
        ).split()[:1] == [wanted])
        self.wait_settled_hosts()

    def wait_settled_hosts(self):
        """Wait until each hypervisor is as its agent wants it."""
        for host in hypervisors.NAMES:
            self.wait(f'{host} as it is wanted', lambda host=host: (
                not host_agents.faults(self.lab, host)))

# SPDX-License-Identifier: Apache-2.0
"""Members that are unmodified VMs, through real OVN and real hypervisors."""

import hashlib
import types
import uuid

from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import download
from lab.fabric import nginx
from lab.fabric import topology
from lab.ovn import host_agents
from lab.ovn import hypervisors
from lab.ovn import migration
from lab.ovn import vms
from octavia_xdp_provider.tests.e2e.support import zero_touch

BYTES = 32 * 1024 * 1024


class TestZeroTouch(zero_touch.ZeroTouchTestCase):

    def test_a_stock_server_is_served_and_sees_its_clients(self):
        for version, address in ((4, paths.CLIENT_ADDRESS),
                                 (6, paths.CLIENT_ADDRESS_V6)):
            balancer = self.balancer('red', version)
            before = {vm: self.clients(vm).get(address, 0)
                      for vm in self.vms.values()}
            count = self.served(balancer, 'red')
            self.assertEqual(
                {self.vms['red', host] for host in hypervisors.NAMES},
                set(count))
            for vm, number in count.items():
                self.check_logged(vm, address, before[vm] + number)
            self.delete_balancer(balancer)

    def check_logged(self, vm, address, number):
        """So many requests of a client; they are logged when answered."""
        self.wait(f'{number} requests in the log of {vm}',
                  lambda: self.clients(vm).get(address, 0) >= number)
        self.assertEqual(number, self.clients(vm)[address])

    def test_vips_of_both_families_have_keys_of_their_own(self):
        # Members have IPv4 addresses; those of IPv6 are their ports'.
        balancer = self.balancer('blue', additional_vips=[
            {'subnet_id': self.subnet('vips-v6')}])
        second = types.SimpleNamespace(
            vip_address=balancer.additional_vips[0]['ip_address'])
        self.wait_routes(second)
        self.wait_enabled(second, len(hypervisors.NAMES))
        keys = set()
        for vip, address in ((balancer, paths.CLIENT_ADDRESS),
                             (second, paths.CLIENT_ADDRESS_V6)):
            before = {vm: self.clients(vm).get(address, 0)
                      for vm in self.vms.values()}
            for vm, number in self.served(vip, 'blue').items():
                self.check_logged(vm, address, before[vm] + number)
            for host, rows in self.entries(vip).items():
                self.assertEqual(1, len(rows))
                keys.add((host, rows[0]['key']))
        self.assertEqual(4, len(keys))
        with self.closed('blue', balancer):
            self.served(second, 'blue', 20)
        self.delete_balancer(balancer)
        for vip in (balancer, second):
            self.wait('end of its entries', lambda vip=vip: not any(
                self.entries(vip).values()))

    def test_operators_see_how_members_are_reached(self):
        balancer = self.balancer('red')
        self.assertEqual(
            {host: ('tunnel', '', host, encapsulation) for
             host, encapsulation in host_agents.ENCAPSULATIONS.items()},
            {host: (row['way'], row['why'], row['hypervisor'],
                    row['encapsulation'])
             for host, row in self.listed(balancer).items()})
        columns = 'in_service', 'alive', 'ports', 'ports_ready', 'problems'
        # What an earlier test deleted may be leaving.
        self.wait('one port on each hypervisor', lambda: {
            tuple(row[name] for name in columns)
            for row in self.managed('host', 'list')} == {
                (True, True, 1, 1, '')})
        for host in hypervisors.NAMES:
            shown = self.managed('host', 'show', host)
            self.assertEqual([('port', 'ready', 1)], [
                (row['kind'], row['state'], row['entries'])
                for row in shown['objects'] if row['kind'] == 'port'])
        self.wait_settled_hosts()

    def test_tenants_have_the_same_addresses(self):
        balancers = {color: self.balancer(color) for color in self.tenants}
        for color, balancer in balancers.items():
            self.served(balancer, color)

    def test_members_ports_are_reached_directly_as_well(self):
        balancer = self.balancer('red')
        first, second = (self.vms['red', host] for host in hypervisors.NAMES)
        with client.Load(self.lab, self.url(balancer), 30) as load:
            for _ in range(20):
                self.assertEqual(second, self.curl(
                    first, self.ADDRESSES['hv2'], timeout=30))
                self.assertEqual(first, self.curl(
                    second, self.ADDRESSES['hv1'], timeout=30))
        self.assertEqual([], load.answers.failures)
        self.assertGreater(load.answers.total, 0)

    def test_neutrons_notifications_are_heard(self):
        def heard():
            return sum(log.read_text().count('Neutron has notified of')
                       for log in self.lab.logs.glob('*.log'))
        balancer = self.balancer('blue')
        # What was made just now has been heard of.
        before = heard()
        with self.closed('blue', balancer):
            self.wait('word of the rule that went',
                      lambda: heard() > before)

    def test_security_groups_are_obeyed(self):
        balancer = self.balancer('blue')
        self.assertTrue(self.is_answered(balancer, 30))
        with self.closed('blue', balancer):
            # Probes are let in all the same: members stay ONLINE.
            self.wait_online(balancer)
            self.assertFalse(self.is_answered(balancer))
        self.wait('answer', lambda: self.is_answered(balancer))
        self.served(balancer, 'blue')

    def test_a_remote_group_lets_in_the_addresses_of_its_ports(self):
        balancer = self.balancer('blue')
        neutron, tenant = self.cloud.network, self.tenants['blue']
        friends = neutron.create_security_group(
            name=self.unique('friends'), project_id=tenant.project_id)
        self.addCleanup(neutron.delete_security_group, friends)
        port = neutron.create_port(
            network_id=tenant.network_id, project_id=tenant.project_id,
            security_groups=[friends.id], allowed_address_pairs=[
                {'ip_address': paths.CLIENT_ADDRESS}])
        self.addCleanup(neutron.delete_port, port)
        with self.closed('blue', balancer):
            rule = neutron.create_security_group_rule(
                security_group_id=tenant.security_group_id,
                direction='ingress', ether_type='IPv4', protocol='tcp',
                port_range_min=vms.HTTP_PORT, port_range_max=vms.HTTP_PORT,
                remote_group_id=friends.id)
            self.addCleanup(neutron.delete_security_group_rule, rule,
                            ignore_missing=True)
            self.wait('answer', lambda: self.is_answered(balancer))
            self.served(balancer, 'blue')
            neutron.update_port(port, allowed_address_pairs=[])
            self.wait('end of answers',
                      lambda: not self.is_answered(balancer))
            neutron.delete_security_group_rule(rule)

    def test_without_port_security_everybody_is_let_in(self):
        balancer = self.balancer('blue', hosts=['hv1'])
        neutron = self.cloud.network
        port = self.ports[self.vms['blue', 'hv1']]
        with self.closed('blue', balancer):
            self.addCleanup(
                neutron.update_port, port.id, is_port_security_enabled=True,
                security_groups=port.security_group_ids)
            neutron.update_port(port.id, is_port_security_enabled=False,
                                security_groups=[])
            self.wait('answer', lambda: self.is_answered(balancer))
            self.served(balancer, 'blue')

    def test_datagrams_are_served(self):
        for color in self.tenants:
            self.start_echo(color)
        self.allow_echo('red')
        for host in hypervisors.NAMES:
            balancer = self.echo_balancer('red', host)
            vip = balancer.vip_address
            self.wait('an answer', lambda vip=vip: client.udp(
                self.lab, vip, zero_touch.PORT, 1).count)
            answers = client.udp(self.lab, vip, zero_touch.PORT, 30, 30)
            self.assertEqual([], answers.failures)
            self.assertEqual({self.vms['red', host]}, set(answers.count))
            self.delete_balancer(balancer)

    def test_members_are_pinged(self):
        vm = self.vms['red', 'hv2']
        for version, name in ((4, 'net.ipv4.icmp_echo_ignore_all'),
                              (6, 'net.ipv6.icmp.echo_ignore_all')):
            balancer = self.balancer('red', version, monitor='PING')
            self.served(balancer, 'red', 20)

            def ignore(number, name=name):
                processes.run(self.lab, vm, ['sysctl', f'{name}={number}'])
            self.addCleanup(ignore, 0)
            ignore(1)
            pool, = self.sdk.pools(loadbalancer_id=balancer.id)
            self.wait('the state of a VM that is silent', lambda pool=pool: {
                member.name: member.operating_status
                for member in self.sdk.members(pool)} == {
                    'hv1': 'ONLINE', 'hv2': 'ERROR'})
            ignore(0)
            self.wait_online(balancer)
            self.delete_balancer(balancer)

    def test_an_agent_that_is_killed_loses_nothing(self):
        balancer = self.balancer('red')
        with client.Load(self.lab, self.url(balancer), 30) as load:
            for host in hypervisors.NAMES:
                name = host_agents.name(host)
                before = load.answers.total
                processes.kill(self.lab, name)
                self.wait('requests without an agent', lambda before=before: (
                    load.answers.total > before + 5))
                processes.restart(self.lab, name)
            before = load.answers.total
            self.wait_settled_hosts()
            self.wait('requests', lambda: load.answers.total > before + 5)
        self.assertEqual([], load.answers.failures)

    def moved_during_a_download(self, balancer, switched=lambda _: None):
        """A VM moves from hv2 to hv1, and a download goes on.

        :param switched: called with the download when the VM runs on hv1.
        :returns: what became of new connections meanwhile.
        """
        vm = self.vms['red', 'hv2']
        port = self.ports[vm]
        content = uuid.uuid4().bytes * (BYTES // 16)
        (nginx.files(self.lab, vm) / 'large').write_bytes(content)
        with (client.Load(self.lab, self.url(balancer), 60) as load,
              download.Download(self.lab, balancer.vip_address,
                                zero_touch.PORT, '/large') as transfer):
            self.wait('its begin', lambda: transfer.moved)
            self.addCleanup(migration.migrate, self.lab, self.cloud, vm,
                            port, 'hv2')
            migration.migrate(self.lab, self.cloud, vm, port, 'hv1',
                              lambda: switched(transfer))
            self.wait('the way to the other hypervisor', lambda: (
                self.listed(balancer)['hv2']['hypervisor'] == 'hv1'))
            self.assertEqual('tunnel', self.listed(balancer)['hv2']['way'])
            self.wait('the end of its entry on the old one', lambda: not (
                self.entries(balancer)['hv2']))
            before = load.answers.total
            self.wait('requests', lambda: load.answers.total > before + 5)
        self.assertIsNone(transfer.problem)
        self.assertEqual(hashlib.sha256(content).hexdigest(),
                         transfer.checksum)
        return load.answers

    def test_a_vm_is_moved_during_a_download(self):
        # Its monitor is quicker than a move, but waits for it.
        answers = self.moved_during_a_download(
            self.balancer('red', hosts=['hv2']))
        self.assertEqual([], answers.failures)

    def test_a_vm_is_moved_from_geneve_to_geneve(self):
        self.use_way('hv1', 'geneve')
        balancer = self.balancer('red', hosts=['hv2'])
        answers = self.moved_during_a_download(balancer)
        self.assertEqual([], answers.failures)
        self.assertEqual('geneve',
                         self.listed(balancer)['hv2']['encapsulation'])

    def test_flows_follow_a_vm_whose_port_has_two_listeners(self):
        other = self.balancer('red', hosts=['hv2'])
        balancer = self.balancer('red', hosts=['hv2'])

        def known(transfer):
            # LB nodes send to the old hypervisor: it is known on the new one
            # because it was sent.
            where = f'{paths.CLIENT_ADDRESS}:{transfer.port}'
            self.wait('its flow on the other hypervisor', lambda: [
                f'{balancer.vip_address}:{zero_touch.PORT}'] == [
                    row['vip'] for row in host_agents.show(
                        self.lab, 'hv1', 'flows')
                    if row['client'] == where])

        self.moved_during_a_download(balancer, known)
        self.served(other, 'red', 20)

    def test_what_is_deleted_leaves_nothing(self):
        balancer = self.balancer('red')
        self.served(balancer, 'red')
        self.assertEqual([1, 1], [
            len(rows) for rows in self.entries(balancer).values()])
        self.delete_balancer(balancer)
        for host in hypervisors.NAMES:
            for subject in 'ports', 'entries', 'flows':
                self.wait(f'end of {subject} on {host}', lambda host=host,
                          subject=subject: not host_agents.show(
                              self.lab, host, subject))
            self.wait(f'end of programs at taps of {host}', lambda host=host:
                      not host_agents.programs(self.lab, host, 'tap-*'))
            self.assertTrue(host_agents.programs(self.lab, host, 'nic-*'))
            self.wait(f'end of keys of {host}', lambda host=host: not any(
                self.managed('host', 'show', host)[name]
                for name in ('ports', 'keys')))
        for node in topology.NODES:
            with self.datapath(node) as opened:
                self.assertEqual([], [service for service in opened.services()
                                      if service.key.address
                                      == balancer.vip_address])

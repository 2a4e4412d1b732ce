# SPDX-License-Identifier: Apache-2.0
"""Refusals: HTTP 501 or 400 with the option's name, and nothing changed."""

from openstack import exceptions

from lab import cloud
from lab import paths
from lab.fabric import members
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.e2e.support import shared


class TestBadInput(shared.Shared, api.ApiTestCase):
    """All with one load balancer: what is refused leaves no trace of it."""

    def share(self):
        return self.create_web(hosts=['member1'], balancer_options={
            'pools': [{'name': 'unused', 'protocol': 'TCP',
                       'lb_algorithm': 'SOURCE_IP_PORT'}]})

    def setUp(self):
        super().setUp()
        self.balancer, self.listener, self.pool, self.made = self.shared
        self.addCleanup(self.assert_unchanged, self.state())

    def state(self):
        """Everything that refused requests must leave as it is."""
        services = []
        for node in topology.NODES:
            with self.datapath(node) as opened:
                services.append([service.generation for service
                                 in opened.services()])
        return (self.tree(self.balancer.id), self.stored(), self.ports(),
                sorted(balancer.id for balancer in self.sdk.load_balancers()),
                services)

    def assert_unchanged(self, before):
        self.assertEqual(before, self.state())

    def refused(self, option, function, *arguments, **more):
        with self.assertRaises(exceptions.HttpException) as caught:
            function(*arguments, **more)
        error = caught.exception
        self.assertIn(error.status_code, api.REFUSED, error)
        self.assertIn(option, str(error.details))

    def test_one_bad_member_refuses_the_batch(self):
        answer = self.sdk.put(
            f'/lbaas/pools/{self.pool.id}/members', json={'members': [
                {'address': members.address('member2'),
                 'protocol_port': 80},
                {'address': '127.0.0.1', 'protocol_port': 80}]})
        self.assertEqual(501, answer.status_code)
        self.assertIn('address', answer.text)

    def test_vips_outside_of_the_vip_networks_are_refused(self):
        admin = self.connection(cloud.ADMIN).network
        other = admin.find_subnet('members-v4')
        second = admin.create_subnet(
            name=self.unique('second'), ip_version=4, cidr='198.18.99.0/24',
            network_id=admin.find_network('vips').id)
        self.addCleanup(admin.delete_subnet, second)
        # Neutron chooses the address of the first one: there is a port at the
        # time of the refusal, and none afterwards.
        for option, more in (
                ('vip_address', {'vip_subnet_id': other.id}),
                ('vip_address', {'vip_subnet_id': other.id,
                                 'vip_address': '198.18.10.200'}),
                ('additional_vips', {
                    'vip_subnet_id': self.subnet('vips-v4'),
                    'additional_vips': [{'subnet_id': second.id}]})):
            with self.subTest(option=option, **more):
                self.refused(option, self.sdk.create_load_balancer,
                             name='bad', provider='xdp', **more)

    def test_vips_of_a_tenants_own_network_are_refused(self):
        """The refusal does not depend on the subnet's addresses."""
        tenant = self.connection().network
        network = tenant.create_network(name=self.unique('own'))
        self.addCleanup(tenant.delete_network, network)
        subnet = tenant.create_subnet(
            network_id=network.id, ip_version=4, is_dhcp_enabled=False,
            cidr=str(paths.VIP_NETWORK))
        self.refused('vip_subnet_id', self.sdk.create_load_balancer,
                     name='bad', provider='xdp', vip_subnet_id=subnet.id)
        self.assertEqual([], list(tenant.ports(network_id=network.id)))

    def test_a_populated_creation_with_a_bad_child_leaves_no_port(self):
        good = {'name': 'pool', 'protocol': 'TCP',
                'lb_algorithm': 'SOURCE_IP_PORT'}
        for option, pool, more in (
                ('lb_algorithm', dict(good, lb_algorithm='ROUND_ROBIN'), {}),
                ('address', dict(good, members=[
                    {'address': '127.0.0.1', 'protocol_port': 80}]), {}),
                ('http_method', dict(good, healthmonitor={
                    'type': 'HTTP', 'delay': 2, 'timeout': 1,
                    'max_retries': 2, 'http_method': 'DELETE'}), {}),
                ('connection_limit', good, {'connection_limit': 10})):
            with self.subTest(option=option):
                self.refused(
                    option, self.sdk.create_load_balancer, name='bad',
                    provider='xdp', vip_subnet_id=self.subnet('vips-v4'),
                    listeners=[{'name': 'l', 'protocol': 'TCP',
                                'protocol_port': 80, 'default_pool': pool,
                                **more}])

    def test_the_users_own_port_survives_a_refusal(self):
        admin = self.connection(cloud.ADMIN).network
        other = admin.find_subnet('members-v4')
        port = admin.create_port(
            network_id=other.network_id, name=self.unique('mine'),
            project_id=self.connection().current_project_id,
            fixed_ips=[{'subnet_id': other.id}])
        self.addCleanup(admin.delete_port, port)
        self.refused('vip_address', self.sdk.create_load_balancer,
                     name='bad', provider='xdp', vip_port_id=port.id)
        self.assertIsNotNone(admin.find_port(port.id))


class TestOddInput(api.ApiTestCase):
    """Values that clients send, and that must be accepted."""

    def setUp(self):
        super().setUp()
        self.balancer = self.create_balancer(pools=[{
            'name': 'pool', 'protocol': 'TCP',
            'lb_algorithm': 'SOURCE_IP_PORT'}])

    def test_time_outs_and_nulls_refuse_nothing(self):
        """Octavia's operator decides which time-outs it fills in; Horizon
        sends nulls for what Octavia has a default with each change."""
        listener = self.sdk.create_listener(
            load_balancer_id=self.balancer.id, name='odd', protocol='TCP',
            protocol_port=8081, timeout_client_data=1000,
            timeout_member_data=7200000, timeout_member_connect=1,
            timeout_tcp_inspect=5)
        self.wait_active(self.balancer)
        pool, = self.sdk.pools(loadbalancer_id=self.balancer.id)
        for kind, key in ('listener', listener.id), ('pool', pool.id):
            self.update(self.balancer.id, kind, key, tls_ciphers=None,
                        tls_versions=None)
        status, answer = self.request(
            'put', self.path('listener', None, listener.id), 'listener',
            tls_ciphers='AES128-SHA')
        self.assertEqual(501, status, answer)
        self.assertIn("option 'tls_ciphers'", str(answer))

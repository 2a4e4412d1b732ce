# SPDX-License-Identifier: Apache-2.0
"""What a person types: every option of the command line that is done."""

from openstack import exceptions

from lab import cloud
from lab import paths
from lab import processes
from lab.fabric import members
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.tests.e2e.support import api
from octavia_xdp_provider.tests.support import form


@form.in_long_form
class TestCommandLine(api.ApiTestCase):

    def openstack(self, *words):
        """What a command shows, as a dictionary or a list."""
        return cloud.openstack(self.lab, 'loadbalancer', *words)

    def test_a_load_balancer_from_its_creation_to_its_deletion(self):
        name = self.unique('cli')
        shown = self.openstack(
            'create', '--name', name, '--description', 'by hand',
            '--provider', 'xdp', '--vip-subnet-id', 'vips-v4',
            '--additional-vip', 'subnet-id=vips-v6', '--enable', '--wait')
        self.addCleanup(self.remove, shown['id'])
        self.assertEqual(('ACTIVE', 'by hand'), (
            shown['provisioning_status'], shown['description']))
        vip = shown['vip_address']
        shown = self.openstack(
            'listener', 'create', '--name', name, '--protocol', 'TCP',
            '--protocol-port', '80', '--allowed-cidr', '198.18.0.0/15',
            '--timeout-client-data', '400000', '--timeout-member-data',
            '300000', '--timeout-member-connect', '7000',
            '--timeout-tcp-inspect', '9', '--connection-limit', '-1',
            '--wait', name)
        self.assertEqual(
            (['198.18.0.0/15'], 400000),
            (shown['allowed_cidrs'], shown['timeout_client_data']))
        shown = self.openstack(
            'pool', 'create', '--name', name, '--protocol', 'TCP',
            '--lb-algorithm', 'SOURCE_IP_PORT', '--session-persistence',
            'type=SOURCE_IP', '--listener', name, '--wait')
        self.assertEqual('SOURCE_IP', shown['session_persistence']['type'])
        shown = self.openstack(
            'member', 'create', '--name', 'member1', '--address',
            members.address('member1'), '--protocol-port', '80', '--weight',
            '3', '--subnet-id', 'members-v4', '--monitor-port', '80',
            '--monitor-address', members.address('member1'), '--enable',
            '--disable-backup', '--wait', name)
        self.assertEqual(3, shown['weight'])
        shown = self.openstack(
            'healthmonitor', 'create', '--name', name, '--type', 'HTTP',
            '--delay', '2', '--timeout', '1', '--max-retries', '2',
            '--max-retries-down', '2', '--http-method', 'GET',
            '--url-path', '/', '--expected-codes', '200',
            '--http-version', '1.1', '--domain-name', 'www.example.org',
            '--wait', name)
        self.assertEqual('www.example.org', shown['domain_name'])
        key = datapath.Key(vip, 'TCP', 80)
        self.wait('a member that takes flows', lambda: all(
            services[key].enabled == 1
            for services in self.services(vip).values()))
        self.check_shown(name)
        cloud.openstack(self.lab, 'loadbalancer', 'delete', '--cascade',
                        '--wait', name)
        self.assertRaises(exceptions.NotFoundException,
                          self.sdk.find_load_balancer, name,
                          ignore_missing=False)
        self.assertEqual([{}, {}], list(self.services(vip).values()))

    def check_shown(self, name):
        """Commands that show something of a load balancer."""
        self.assertEqual([name], [
            one['name'] for one in self.openstack('listener', 'list')])
        statistics = self.openstack('stats', 'show', name)
        self.assertEqual(0, int(statistics['request_errors']))
        self.assertEqual('ONLINE', self.openstack(
            'member', 'show', name, 'member1')['operating_status'])

    def test_what_the_provider_can_do_is_listed(self):
        found = processes.run(
            self.lab, paths.CONTROL,
            ['openstack', 'loadbalancer', 'provider', 'capability', 'list',
             'xdp'], env=cloud.environment(self.lab, cloud.ADMIN)).stdout
        for key in ('flavor', 'availability_zone', 'encapsulation',
                    'replicas', 'valid_vip_networks'):
            self.assertIn(key, found)

    def test_the_reason_of_a_refusal_is_shown(self):
        balancer = self.create_balancer()
        done = processes.run(
            self.lab, paths.CONTROL,
            ['openstack', 'loadbalancer', 'pool', 'create', '--loadbalancer',
             balancer.id, '--protocol', 'TCP', '--lb-algorithm',
             'ROUND_ROBIN'], env=cloud.environment(self.lab), check=False)
        self.assertNotEqual(0, done.returncode)
        for word in ('lb_algorithm', 'ROUND_ROBIN', 'use SOURCE_IP_PORT'):
            self.assertIn(word, done.stdout + done.stderr)

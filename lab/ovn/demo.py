# SPDX-License-Identifier: Apache-2.0
"""The demonstration with unmodified VMs.

Two tenants have the same subnet and the same addresses in it. Every step is
recorded in build/demo-vms.json.
"""

import contextlib
import functools
import hashlib
import http
import json
import uuid

from lab import cloud
from lab import demo_steps
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab import progress
from lab.control import octavia
from lab.fabric import client
from lab.fabric import download
from lab.fabric import nginx
from lab.fabric import router
from lab.fabric import topology
from lab.ovn import host_agents
from lab.ovn import hypervisors
from lab.ovn import migration
from lab.ovn import packages
from lab.ovn import tenants
from lab.ovn import vms

REPORT = paths.BUILD / 'demo-vms.json'
TENANTS = ('red', 'blue')
ADDRESSES = dict(zip(hypervisors.NAMES, ('10.0.0.11', '10.0.0.12'),
                     strict=True))
LISTENER, POOL = 'web-http', 'web-servers'
PORT = 80
REQUESTS = 1000
BYTES = 32 * 1024 * 1024
TIMEOUT_S = 120
LOG_S = 10  # until a server has logged its answers

_expect = demo_steps.expect


class Demo(demo_steps.Steps):
    """Two tenants, two hypervisors, a VM of each tenant on each."""

    def __init__(self, lab, keep):
        super().__init__(lab, REPORT)
        self.keep = keep
        self.vips = {}
        self.tenants = {}
        self.ports = {}
        self.rules = {}

    def check(self):
        super().check()
        with progress.step('downloading Open vSwitch and OVN if missing'):
            packages.provide(self.lab)

    def run(self):
        """Run all steps.

        :raises demo_steps.StepFailed: a step failed.
        """
        self.step('bring up control host, fabric, LB nodes and hypervisors',
                  lambda: deployment.up(self.lab, ovn=True))
        self.step('two tenants with the same subnet and addresses',
                  self.make_tenants)
        for tenant in TENANTS:
            self.step(f'{tenant} creates a load balancer',
                      functools.partial(self.create, tenant))
        self.step('wait for ACTIVE and ONLINE', self.wait_online)
        self.step('VMs are not changed', self.check_vms)
        for tenant in TENANTS:
            self.step(f'{REQUESTS:,} requests to {tenant}',
                      functools.partial(self.requests, tenant))
        self.step('the members\' ports are reached directly as well',
                  self.reach_directly)
        self.step('a rule of a security group is deleted', self.forbid)
        self.step('the rule is created again', self.allow)
        self.step('a VM is moved during a download', self.move)
        self.step('an agent of a hypervisor is killed', self.kill_agent)
        if not self.keep:
            self.step('delete both load balancers', self.delete)

    @contextlib.contextmanager
    def cloud(self):
        """Connect as the cloud's administrator."""
        with namespaces.inside(self.lab, paths.CONTROL):
            yield tenants.Tenants(self.lab)

    def make_tenants(self):
        with self.cloud() as admin:
            for tenant in TENANTS:
                created = self.tenants[tenant] = admin.create(tenant)
                for hypervisor, address in ADDRESSES.items():
                    vm = _vm(tenant, hypervisor)
                    port = admin.create_port(created, hypervisor, address)
                    vms.create(self.lab, vm, hypervisor,
                               admin.as_plugged(port))
                    vms.start_http(self.lab, vm)
                    self.ports[vm] = port
            processes.wait_for('ACTIVE ports', lambda: all(
                admin.is_active(port) for port in self.ports.values()),
                TIMEOUT_S, 0.5)
        for tenant in TENANTS:
            self.allow_http(tenant)
        return (f'{", ".join(self.ports)}: each tenant\'s are '
                f'{" and ".join(ADDRESSES.values())} in {tenants.SUBNET}')

    def allow_http(self, tenant):
        self.rules[tenant] = self.openstack(
            'security', 'group', 'rule', 'create', '--protocol', 'tcp',
            '--dst-port', str(vms.HTTP_PORT), '-f', 'value', '-c', 'id',
            self.tenants[tenant].security_group_id, user=tenant).split()[-1]

    # The tenants' commands

    def create(self, tenant):
        def run(kind, *arguments, column='provisioning_status'):
            words = ['loadbalancer', *kind.split(), 'create', *arguments]
            return self.openstack(*words, '--wait', '-f', 'value', '-c',
                                  column, user=tenant)
        self.vips[tenant] = run(
            '', '--name', tenant, '--provider', octavia.XDP,
            '--vip-subnet-id', 'vips-v4', column='vip_address')
        run('listener', '--name', LISTENER, '--protocol', 'TCP',
            '--protocol-port', str(PORT), tenant)
        run('pool', '--name', POOL, '--listener', LISTENER, '--protocol',
            'TCP', '--lb-algorithm', 'SOURCE_IP_PORT')
        # Checks may fail during a move, when nobody can reach the VM.
        run('healthmonitor', '--type', 'HTTP', '--url-path', '/', '--delay',
            '2', '--timeout', '1', '--max-retries', '2', POOL)
        for hypervisor, address in ADDRESSES.items():
            run('member', '--name', _vm(tenant, hypervisor), '--subnet-id',
                self.tenants[tenant].subnet_id, '--address', address,
                '--protocol-port', str(vms.HTTP_PORT), POOL)
        return (f'VIP {self.vips[tenant]}, port {PORT} to port '
                f'{vms.HTTP_PORT}')

    def wait_online(self):
        for tenant, vip in self.vips.items():
            with namespaces.inside(self.lab, paths.CONTROL):
                sdk = cloud.connect(self.lab, tenant).load_balancer
                processes.wait_for(
                    f'an ACTIVE and ONLINE load balancer of {tenant}',
                    lambda sdk=sdk, tenant=tenant: _is_online(
                        sdk.find_load_balancer(tenant)), TIMEOUT_S, 0.5)
                pool = sdk.find_pool(POOL)
                processes.wait_for(
                    f'ONLINE members of {tenant}',
                    lambda sdk=sdk, pool=pool: all(
                        member.operating_status == 'ONLINE'
                        for member in sdk.members(pool)), TIMEOUT_S, 0.5)
            processes.wait_for(
                f'a route to {vip} through both LB nodes',
                lambda vip=vip: len(router.next_hops(self.lab, vip))
                == len(topology.NODES), TIMEOUT_S)
            self.openstack('loadbalancer', 'member', 'list', '-c', 'name',
                           '-c', 'address', '-c', 'operating_status', POOL,
                           user=tenant)
        return self.check_ways()

    def check_ways(self):
        """Check by the operator's command how LB nodes reach members."""
        texts = []
        for tenant in TENANTS:
            with namespaces.inside(self.lab, paths.CONTROL):
                balancer = cloud.connect(
                    self.lab, tenant).load_balancer.find_load_balancer(tenant)
            done = processes.run(self.lab, paths.CONTROL, [
                paths.VENV / 'bin' / 'octavia-xdp-manage', '--config-file',
                octavia.provider_configuration(self.lab), 'lb', 'members',
                balancer.id, '-f', 'json'])
            for member in json.loads(done.stdout):
                _expect(member['way'] == 'tunnel',
                        f'{member["name"]} is reached by {member["way"]}: '
                        f'{member["why"]}')
                texts.append(f'{member["name"]} on {member["hypervisor"]} by '
                             f'{member["encapsulation"]}')
        return '; '.join(texts)

    def check_vms(self):
        for vm in self.ports:
            addresses = processes.run(self.lab, vm, ['ip', '-br', 'address'])
            for vip in self.vips.values():
                _expect(vip not in addresses.stdout, f'{vm} has {vip}')
            listening = processes.run(self.lab, vm, ['ss', '-Hltn']).stdout
            _expect(f':{PORT} ' not in listening,
                    f'{vm} listens on port {PORT}')
        return f'no VIP, and no server on port {PORT}'

    # Traffic

    def url(self, tenant):
        return f'http://{self.vips[tenant]}:{PORT}/'

    def requests(self, tenant, number=REQUESTS):
        """Send requests by curl; the tenant's own VMs must answer all."""
        own = [_vm(tenant, hypervisor) for hypervisor in ADDRESSES]
        before = {vm: self.clients(vm) for vm in own}
        answers = client.requests(self.lab, self.url(tenant), number, 30)
        for vm in own:
            print(f'             {vm} answered {answers.count[vm]:5} '
                  f'{"#" * (answers.count[vm] * 40 // number)}', flush=True)
        _expect(not answers.failures,
                f'{len(answers.failures)} of {number} requests failed, '
                f'first: {"".join(answers.failures[:1])}')
        _expect(set(answers.count) == set(own),
                f'{sorted(answers.count)} answered')
        for vm in own:
            # A server writes its log after the answer.
            with contextlib.suppress(paths.LabError):
                processes.wait_for('log', lambda vm=vm: answers.count[vm] <= (
                    self.clients(vm) - before[vm]), LOG_S)
            logged = self.clients(vm) - before[vm]
            _expect(logged == answers.count[vm],
                    f'{vm} answered {answers.count[vm]}, and logged {logged} '
                    f'of {paths.CLIENT_ADDRESS}')
        return (f'all answered, and logged as of {paths.CLIENT_ADDRESS}: '
                f'{dict(sorted(answers.count.items()))}')

    def clients(self, vm):
        """Count requests from the client's address in a server's log."""
        return sum(line.split()[0] == paths.CLIENT_ADDRESS for line in
                   nginx.access_log(self.lab, vm).read_text().splitlines())

    def is_answered(self, tenant):
        return bool(client.requests(self.lab, self.url(tenant), 1, 2).count)

    def reach_directly(self):
        number = 50
        with client.Load(self.lab, self.url('red'), 60) as load:
            first, second = (_vm('red', hypervisor)
                             for hypervisor in ADDRESSES)
            for _ in range(number):
                done = processes.run(self.lab, first, [
                    'curl', '-sS', '-f', '-m', '30',
                    f'http://{ADDRESSES["hv2"]}:{vms.HTTP_PORT}/'])
                _expect(done.stdout.strip() == second, done.stdout)
        _none_failed(load)
        return (f'{number} requests of {first} to {second} at port '
                f'{vms.HTTP_PORT}, and {load.answers.total} by the VIP')

    def forbid(self):
        self.openstack('security', 'group', 'rule', 'delete',
                       self.rules['red'], user='red')
        processes.wait_for('the end of answers',
                           lambda: not self.is_answered('red'), TIMEOUT_S)
        self.requests('blue', 100)
        return 'new connections to red are refused, to blue are served'

    def allow(self):
        self.allow_http('red')
        processes.wait_for('an answer', lambda: self.is_answered('red'),
                           TIMEOUT_S)
        return self.requests('red', 200)

    def move(self):
        vm = _vm('red', 'hv2')
        content = uuid.uuid4().bytes * (BYTES // 16)
        (nginx.files(self.lab, vm) / 'large').write_bytes(content)
        with (client.Load(self.lab, self.url('red'), 60) as load,
              self.download() as transfer):
            processes.wait_for('the download\'s first bytes',
                               lambda: transfer.moved, TIMEOUT_S)
            with self.cloud() as admin:
                migration.migrate(self.lab, admin, vm, self.ports[vm], 'hv1')
            processes.wait_for(
                'the end of its entry on hv2',
                lambda: not host_agents.entries_of(
                    self.lab, self.vips['red'], PORT)['hv2'], TIMEOUT_S, 0.5)
        _expect(not transfer.problem, f'the download: {transfer.problem}')
        _expect(transfer.checksum == hashlib.sha256(content).hexdigest(),
                'the download has another checksum')
        _none_failed(load)
        return (f'{vm} from hv2 to hv1: {transfer.moved} bytes with the '
                f'same checksum, {load.answers.total} new connections, none '
                'failed')

    def download(self):
        """Begin a download of the file that only one VM has.

        :raises demo_steps.StepFailed: that VM does not serve it.
        """
        def begin():
            transfer = download.Download(self.lab, self.vips['red'], PORT,
                                         '/large')
            if transfer.status == http.HTTPStatus.OK:
                return transfer
            transfer.close()
            # The other VM answers with 404.
            _expect(transfer.status == http.HTTPStatus.NOT_FOUND,
                    f'a download is answered with {transfer.status}')
            return None
        return processes.wait_for('a download from the VM that has the file',
                                  begin, TIMEOUT_S)

    def kill_agent(self):
        with client.Load(self.lab, self.url('blue'), 60) as load:
            for hypervisor in hypervisors.NAMES:
                processes.kill(self.lab, host_agents.name(hypervisor))
                self.wait_requests(load)
                processes.restart(self.lab, host_agents.name(hypervisor))
                processes.wait_for(
                    f'the wanted state of {hypervisor}',
                    lambda hypervisor=hypervisor: not host_agents.faults(
                        self.lab, hypervisor), TIMEOUT_S, 0.5)
            self.wait_requests(load)
        _none_failed(load)
        return f'{load.answers.total} requests meanwhile, none failed'

    def wait_requests(self, load):
        before = load.answers.total
        processes.wait_for('more requests', lambda: (
            load.answers.total > before + 20), TIMEOUT_S)

    def delete(self):
        for tenant in TENANTS:
            self.openstack('loadbalancer', 'delete', '--cascade', '--wait',
                           tenant, user=tenant)
        for hypervisor in hypervisors.NAMES:
            for subject in 'ports', 'entries', 'flows':
                processes.wait_for(
                    f'the end of {subject} on {hypervisor}',
                    lambda hypervisor=hypervisor, subject=subject: not (
                        host_agents.show(self.lab, hypervisor, subject)),
                    TIMEOUT_S, 0.5)
            processes.wait_for(
                f'the end of programs at taps of {hypervisor}',
                lambda hypervisor=hypervisor: not host_agents.programs(
                    self.lab, hypervisor, 'tap-*'), TIMEOUT_S, 0.5)
        for vip in self.vips.values():
            _expect(not router.next_hops(self.lab, vip),
                    f'there is a route to {vip}')
        return ('no entry, flow or program of a tap on any hypervisor, and no '
                'route to any VIP')


def _vm(tenant, hypervisor):
    return f'{tenant}-{paths.number(hypervisor)}'


def _is_online(load_balancer):
    return (load_balancer.provisioning_status,
            load_balancer.operating_status) == ('ACTIVE', 'ONLINE')


def _none_failed(load):
    _expect(not load.answers.failures,
            f'{len(load.answers.failures)} of {load.answers.total} requests '
            f'failed, first: {"".join(load.answers.failures[:1])}')

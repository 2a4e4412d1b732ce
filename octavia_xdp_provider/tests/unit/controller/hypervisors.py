# SPDX-License-Identifier: Apache-2.0
"""Two hypervisors, their members' ports, and the worker that serves them."""

from octavia_xdp_provider.api import validation
from octavia_xdp_provider.contracts import host_spec
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import host_api
from octavia_xdp_provider.controller.zero_touch import notified
from octavia_xdp_provider.controller.zero_touch import service
from octavia_xdp_provider.tests.unit import base as unit_base
from octavia_xdp_provider.tests.unit.controller import base
from octavia_xdp_provider.tests.unit.controller import ports

LEASE = 'duty'
QUARANTINE_S = 600
OPTIONS = '''
[zero_touch]
node_networks = 198.18.0.0/24
host_networks = 198.18.20.0/24, fd00:9::/64
'''


def uuid(number):
    return f'00000000-0000-4000-8000-{number:012}'


PORTS = {'m1': uuid(1), 'm2': uuid(2)}
ADDRESSES = {'m1': '10.0.0.11', 'm2': '10.0.0.12'}
GROUP = uuid(90)


class Neutron(ports.Neutron):

    def ports_of_groups(self, ids):
        return [row for row in self._ports
                if set(row['security_groups']) & set(ids)]

    def address_groups(self, ids):
        return []


def port(member, **more):
    return ports.port(
        PORTS[member], security_groups=[GROUP], **{
            'fixed_ips': [{'subnet_id': 'sub-red',
                           'ip_address': ADDRESSES[member]}], **more})


class Host:
    """A simulated hypervisor's agent that calls the endpoint."""

    def __init__(self, test, name, number):
        self.name = name
        self.state = {
            'agent': '1', 'document_version': 1, 'kernel': '6.12',
            'geneve': [f'198.18.20.{number}'], 'srv6': None, 'mtu': 1500,
            'entries_max': 4096}
        self.endpoint = host_api.HostsEndpoint(test.conf, test.store,
                                               lambda: None)
        self.held, self.as_of = {}, 0
        self.errors = {}
        self._seq = 0
        test.store.hypervisors.register(name)

    def pass_(self):
        """Fetch, apply and report."""
        answer = self.endpoint.fetch({}, host=self.name, since=self.as_of)
        for key in answer['removed']:
            self.held.pop(key, None)
        for row in answer['changed']:
            host_spec.check(row['kind'], row['document'])
            self.held[row['id']] = row
        host_spec.check_common(answer['common'])
        self.as_of = answer['as_of']
        self.report()

    def report(self):
        self._seq += 1
        answer = self.endpoint.report(
            {}, host=self.name, epoch=self._seq, seq=1, report={
                'as_of': self.as_of, 'complete': True, 'gone': [],
                'counters': {}, 'state': self.state, 'held': {
                    key: {'generation': row['generation'], 'ifindex': 3,
                          'error': self.errors.get(key)}
                    for key, row in self.held.items()}})
        assert answer['taken']

    def keys(self):
        return {entry['key'] for row in self.held.values()
                for entry in row['document'].get('entries', ())}


class ZeroTouchTestCase(base.StoreTestCase):

    MODE = 'required'
    OPTIONS = OPTIONS

    def load(self, text=''):
        return super().load(text + self.OPTIONS)

    def setUp(self):
        super().setUp()
        self.hold_time()
        self.ports = [port('m1'), port('m2'),
                      ports.router_port()]
        self.neutron = Neutron(self.ports, [ports.rule()])
        self.notified = []
        self.hv1, self.hv2 = Host(self, 'hv1', 1), Host(self, 'hv2', 2)
        for host in (self.hv1, self.hv2):
            host.pass_()
        self.store.nodes.register('lb1')
        self.seen('lb1', {})
        self.set_conditions(lb1='live')
        self.token = self.store.leases.acquire(LEASE, 'test', 1e6)
        self.hints = notified.Notified()
        self.worker = self.new_worker()

    def new_worker(self):
        return service.ZeroTouch(
            self.conf, self.store, LEASE, lambda: self.token,
            self.notified.extend, self.notified.extend, self.neutron,
            self.hints, waiting=lambda *values: setattr(
                self, 'waiting', values))

    def tree(self, **more):
        tree = unit_base.tree(flavor={'zero_touch': self.MODE},
                              project_id='red', **more)
        for key, address in ADDRESSES.items() if not more else ():
            tree['pools']['pool']['members'][key] = {
                'address': address, 'protocol_port': 8080,
                'subnet_id': 'sub-red'}
        return tree

    def create(self, key='lb', **more):
        self.store.load_balancers.create(spec.document(key, self.tree(**more)))
        self.store.placements.place(key, ('lb1',), decided_on=frozenset())

    def step(self):
        """Step with all periodic work due."""
        self.worker._due = {}
        self.worker.step()

    def row(self, key='lb'):
        return self.store.load_balancers.get(key)

    def members(self, key='lb'):
        return self.row(key).document['pools']['pool']['members']

    def sent(self, key='lb'):
        """Return the members in the document for nodes."""
        document = spec.for_node(self.row(key).document)
        validation.read(document)
        return document['pools']['pool']['members']

    def node_syncs(self, key='lb', host='lb1'):
        generation = self.row(key).generation
        self.report_held(host, generation, {key: generation})

    def converge(self):
        for _ in range(4):
            self.step()
            for host in (self.hv1, self.hv2):
                host.pass_()
            if self.row():
                self.node_syncs()
        self.step()

    def ways(self, key='lb'):
        return {way.member_id: way for way in self.store.ways.select(key)}

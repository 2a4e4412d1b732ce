# SPDX-License-Identifier: Apache-2.0
"""Octavia's API by its own words, through the SDK's session."""

import json
import re

from lab import cloud
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.tests.e2e.support import base
from octavia_xdp_provider.tests.e2e.support import shared

# Of a refusal: what the API itself says, or the driver.
REFUSED = (400, 501)
PATHS = {'loadbalancer': 'loadbalancers', 'listener': 'listeners',
         'pool': 'pools', 'healthmonitor': 'healthmonitors'}


class ApiTestCase(base.LabTestCase):
    """Requests as dictionaries of Octavia's own names."""

    def request(self, method, path, kind=None, **fields):
        """What the API answers: a status code and a dictionary."""
        body = {'json': {kind: fields}} if kind else {}
        answer = getattr(self.sdk, method)(f'/lbaas/{path}', **body)
        content = answer.json() if answer.content else {}
        return answer.status_code, content.get(kind, content)

    def path(self, kind, parent=None, key=None):
        """Where objects of a kind are; members are below their pool."""
        path = f'pools/{parent}/members' if kind == 'member' else PATHS[kind]
        return f'{path}/{key}' if key else path

    def create(self, balancer_id, kind, parent=None, **fields):
        """An object, when its load balancer is ACTIVE; as the API has it."""
        status, answer = self.request(
            'post', self.path(kind, parent), kind, **fields)
        self.assertEqual(201, status, answer)
        if balancer_id is None:
            balancer_id = answer['id']
            self.addCleanup(self.remove, balancer_id)
        self.settle(balancer_id)
        return self.show(kind, answer['id'], parent)

    def update(self, balancer_id, kind, key, parent=None, **fields):
        """The object when its load balancer is ACTIVE again."""
        status, answer = self.request(
            'put', self.path(kind, parent, key), kind, **fields)
        self.assertEqual(200, status, answer)
        self.settle(balancer_id)
        return self.show(kind, key, parent)

    def show(self, kind, key, parent=None):
        status, answer = self.request('get', self.path(kind, parent, key))
        self.assertEqual(200, status, answer)
        return answer[kind]

    def settle(self, balancer_id):
        self.wait_active(self.sdk.get_load_balancer(balancer_id))

    def remove(self, balancer_id):
        balancer = self.sdk.find_load_balancer(balancer_id)
        if balancer is not None:
            self.delete_balancer(balancer)

    def assert_shown(self, wanted, shown):
        self.assertEqual(
            {name: _sorted(value) for name, value in wanted.items()},
            {name: _sorted(_given(shown[name])) for name in wanted})

    def tree(self, balancer_id):
        """What Octavia and the controllers have of a load balancer, without
        operating statuses."""
        status, answer = self.request(
            'get', f'loadbalancers/{balancer_id}/status')
        self.assertEqual(200, status, answer)
        text = re.sub(r'"operating_status": "[A-Z_]+"', '',
                      json.dumps(answer, sort_keys=True))
        return text, [row for row in self.stored() if row[0] == balancer_id]

    def ports(self):
        """Ids of the ports of all VIPs."""
        network = self.connection(cloud.ADMIN).network
        return sorted(port.id for port in network.ports()
                      if port.name.startswith('octavia-lb-'))

    def services(self, address):
        """Node → its services of a VIP."""
        services = {}
        for node in topology.NODES:
            with self.datapath(node) as opened:
                services[node] = {service.key: service
                                  for service in opened.services()
                                  if service.key.address == address}
        return services

    def checks(self, address):
        """Node → its checks of an address, as files have them."""
        return {node: [
            check for path in (nodes.run_directory(self.lab, node)
                               / 'checks').iterdir()
            for check in json.loads(path.read_text())['checks']
            if check['address'] == address] for node in topology.NODES}


class UnchangedTestCase(shared.Shared, ApiTestCase):
    """Tests share a load balancer, which refusals leave as it is."""

    def setUp(self):
        super().setUp()
        self.balancer = self.shared

    def refused(self, names, method, path, kind=None, **fields):
        """What is answered to a request, which has one of the names."""
        before = self.tree(self.balancer.id)
        status, answer = self.request(method, path, kind, **fields)
        self.assertIn(status, REFUSED, answer)
        self.assertTrue(any(name in str(answer) for name in names), answer)
        self.assertEqual(before, self.tree(self.balancer.id))
        return answer


def _given(value):
    """Octavia shows fields of an object that nobody gave as null."""
    return {name: field for name, field in value.items() if field is not None
            } if isinstance(value, dict) else value


def _sorted(value):
    """Octavia has networks in no order."""
    return sorted(value) if isinstance(value, list) and all(
        isinstance(item, str) for item in value) else value

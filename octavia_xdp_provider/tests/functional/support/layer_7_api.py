# SPDX-License-Identifier: Apache-2.0
"""Requests of layer 7 to Octavia's own API, with its database as the oracle.

Whatever is asked of the API, the document that results from the driver's
changes is the one that Octavia's look-up for providers gives afterwards.
This loads Octavia: see `own_process`.
"""

import dataclasses
import ipaddress
import pathlib
import random
import types

import fixtures
from octavia.api.drivers.driver_agent import driver_get
from octavia.api.drivers.driver_agent import driver_updater
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from octavia_xdp_provider.api import policy
from octavia_xdp_provider.api import translate
from octavia_xdp_provider.api import validation
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import changes
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.tests.functional.support import octavia_api

POLICY = policy.ApiPolicy(address_policy.AddressPolicy(tuple(
    ipaddress.ip_network(text) for text in octavia_api.VIPS), ()))


class Api(octavia_api.OctaviaApi):
    """``documents``: what a controller would have, by load balancer;
    ``sealed``: what it was sent of certificates, by name."""

    def __init__(self):
        self._folder = fixtures.TempDir()
        super().__init__(POLICY)
        self.documents = {}
        self.changes = []
        self.sealed = {}

    def _setUp(self):
        self.path = pathlib.Path(self.useFixture(self._folder).path)
        self.keys = sealing.KeyPair.load(self.path / 'private')
        self.policy = dataclasses.replace(POLICY, public_key=self.keys.public)
        super()._setUp()

    def _database(self):
        # Once the configuration is read, and before Octavia's API uses it.
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        conf.config(group='certificates', cert_manager='local_cert_manager',
                    storage_path=str(self.path))
        super()._database()

    def store(self, reference, certificate, key=b''):
        """Store a certificate where Octavia's local manager finds it."""
        (self.path / f'{reference}.crt').write_bytes(certificate)
        (self.path / f'{reference}.key').write_bytes(key)

    def _controller(self):
        return types.SimpleNamespace(policy=self.policy, change=self.change,
                                     check_answers=lambda: None)

    def change(self, change):
        try:
            validation.check_change(change)
            document = self._applied(change)
            validation.validate(document)
        except errors.Refused as refused:
            raise exceptions.UnsupportedOptionError(
                user_fault_string=str(refused),
                operator_fault_string=str(refused)) from refused
        self.changes.append(change)
        self.sealed.update(change.get('bundles', {}))
        self.documents[document['id']] = document

    def _applied(self, change):
        if change['object'] == 'loadbalancer':
            return spec.document(change['object_id'], change['fields'])
        key = change.get('load_balancer_id') or next(
            key for key, document in self.documents.items()
            if changes.parent(change) in {
                name for _kind, name in spec.objects(document)})
        return changes.apply(self.documents[key], change)

    def ask(self, method, path, **body):
        """Return the object that a request leads to, or None."""
        response = self.request(f'/v2.0/lbaas/{path}', method, body or None)
        if method == 'DELETE':
            self._end_deletion()
            return None
        answer, = response.json().values()
        return answer

    def _end_deletion(self):
        plural = {'l7policy': 'l7policies', 'l7rule': 'l7rules'}
        change = self.changes[-1]
        answer = driver_updater.DriverUpdater().update_loadbalancer_status({
            plural[change['object']]: [{'id': change['object_id'],
                                        'provisioning_status': 'DELETED'}]})
        assert answer['status_code'] == 200, answer

    def octavias(self, key):
        """Return a document of what Octavia has."""
        return spec.document(key, translate.load_balancer_tree(
            data_models.LoadBalancer.from_dict(driver_get.process_get(
                {'object': 'loadbalancers', 'id': key}))))


class Cloud:
    """The API, and what it is asked for."""

    def __init__(self, api, seed=0):
        self.api = api
        self._source = random.Random(seed)

    def check(self, key):
        """Compare what the controllers have with what Octavia has."""
        ours, octavias = self.api.documents[key], self.api.octavias(key)
        differences = [spec.differences(ours, octavias),
                       spec.differences(octavias, ours)]
        assert differences == [[], []], differences
        # With what Octavia does not have.
        octavias = spec.as_committed(ours, octavias)
        assert ours['listeners'] == octavias['listeners']

    def balancer(self, **listener):
        """Create a load balancer with a listener and two pools; return its
        id."""
        subnet, = self.api.neutron.subnets(name='vips-v4')
        return self.api.ask('POST', 'loadbalancers', loadbalancer={
            'vip_subnet_id': subnet['id'], 'project_id': octavia_api.PROJECT,
            'listeners': [{'name': 'web', 'protocol': 'HTTP',
                           'protocol_port': 80, **listener}],
            'pools': [{'name': name, 'protocol': 'HTTP',
                       'lb_algorithm': 'ROUND_ROBIN',
                       'members': [{'address': '198.18.10.11',
                                    'protocol_port': 80}]}
                      for name in ('webs', 'images')]})['id']

    def refused(self, **listener):
        """Return status and text of a creation that is refused."""
        try:
            self.balancer(**listener)
        except octavia_api.HttpError as error:
            assert not self.api.documents
            return error.response.status_code, error.response.text
        raise AssertionError(f'{listener} is not refused')

    def change_anything(self, key, listener_id, number):
        policies = sorted(self.api.documents[key]['listeners'][
            listener_id].get('l7policies', {}).items())
        if policies and number % 3 == 2:
            self._change_rules(*self._source.choice(policies))
        elif len(policies) > 5 or (policies and self._source.random() < .2):
            policy_id, _policy = self._source.choice(policies)
            self.api.ask('DELETE', f'l7policies/{policy_id}')
        elif policies and self._source.random() < .6:
            policy_id, _policy = self._source.choice(policies)
            self.api.ask('PUT', f'l7policies/{policy_id}',
                         l7policy=self._policy(key, number, change=True))
        else:
            self.api.ask('POST', 'l7policies', l7policy={
                'listener_id': listener_id, **self._policy(key, number)})
        self.check(key)

    def _policy(self, key, number, change=False):
        """Return fields of a policy; of a change, not always an action."""
        fields = self._source.choice([
            {'action': 'REJECT'},
            {'action': 'REDIRECT_TO_URL',
             'redirect_url': f'https://example.com/{number}',
             'redirect_http_code': 301},
            {'action': 'REDIRECT_PREFIX',
             'redirect_prefix': f'https://example.com/{number}'},
            {'action': 'REDIRECT_TO_POOL', 'redirect_pool_id':
                self._source.choice(sorted(
                    self.api.documents[key]['pools']))},
            *([{'admin_state_up': bool(number % 2)}] * 3 * change)])
        if self._source.random() < .6:
            fields = {**fields, 'position': self._source.randint(1, 8)}
        return fields

    def _change_rules(self, policy_id, policy):
        path = f'l7policies/{policy_id}/rules'
        rules = sorted(policy['rules'])
        if len(rules) < 2:
            self.api.ask('POST', path, rule={
                'type': 'HEADER', 'compare_type': 'EQUAL_TO', 'key': 'X-A',
                'value': 'a', 'invert': True})
        elif self._source.random() < .5:
            self.api.ask('PUT', f'{path}/{rules[0]}', rule={
                'type': 'PATH', 'compare_type': 'REGEX', 'key': None,
                'value': '^/[a-z]+$'})
        else:
            self.api.ask('DELETE', f'{path}/{rules[0]}')


def create(listener):
    """Create a load balancer, and return its listener's document."""
    with Api() as api:
        cloud = Cloud(api)
        key = cloud.balancer(**listener)
        cloud.check(key)
        created, = api.documents[key]['listeners'].values()
        return created


def refuse(listeners):
    """Return the status and the text of each creation, all of which are
    refused."""
    with Api() as api:
        return [Cloud(api).refused(**listener) for listener in listeners]


def update(listener, pool):
    """Make changes of a listener and a pool, each a dictionary of fields."""
    with Api() as api:
        cloud = Cloud(api)
        key = cloud.balancer()
        kinds = {'listener': min(api.documents[key]['listeners']),
                 'pool': min(api.documents[key]['pools'])}
        for kind, changes_of_it in (('listener', listener), ('pool', pool)):
            for fields in changes_of_it:
                api.ask('PUT', f'{kind}s/{kinds[kind]}', **{kind: fields})
                cloud.check(key)


def certify(stored, listener, pool):
    """Create a load balancer that does TLS, and make changes of its listener
    and a pool.

    :param stored: certificate and key by reference.
    :returns: the listener and the pool, and names of hosts by bundle.
    """
    with Api() as api:
        for reference, content in stored.items():
            api.store(reference, *content)
        cloud = Cloud(api)
        key = cloud.balancer(protocol='TERMINATED_HTTPS',
                             default_tls_container_ref=min(stored))
        cloud.check(key)
        listener_id, pool_id = (min(api.documents[key][kind])
                                for kind in ('listeners', 'pools'))
        api.ask('PUT', f'listeners/{listener_id}', listener=listener)
        cloud.check(key)
        api.ask('PUT', f'pools/{pool_id}', pool=pool)
        cloud.check(key)
        document = api.documents[key]
        return (document['listeners'][listener_id], document['pools'][pool_id],
                {name: api.keys.open(text, key, name).host_names()
                 for name, text in api.sealed.items()})


def certify_new(stored, listener):
    """Create a load balancer with a listener that does TLS, and another one.

    :returns: names of hosts that clients may ask for, of each listener.
    """
    with Api() as api:
        for reference, content in stored.items():
            api.store(reference, *content)
        cloud = Cloud(api)
        key = cloud.balancer(**listener)
        cloud.check(key)
        api.ask('POST', 'listeners', listener={
            **listener, 'loadbalancer_id': key, 'protocol_port': 8443})
        cloud.check(key)
        return [sorted(api.keys.open(api.sealed[name], key, name)
                       .host_names()[0] for name in made['sni_bundles'])
                for made in api.documents[key]['listeners'].values()]


def change_anything(number, seed):
    """Make a number of any changes of policies and rules."""
    with Api() as api:
        cloud = Cloud(api, seed)
        key = cloud.balancer()
        listener_id, = api.documents[key]['listeners']
        for position in range(number):
            cloud.change_anything(key, listener_id, position)

# SPDX-License-Identifier: Apache-2.0
"""Octavia's own API in this process, on SQLite, with this driver.

All that stands in is what lies behind: a controller that takes each change,
and a Neutron that has each subnet that somebody names.
"""

import ipaddress
import logging
import types
from unittest import mock
import urllib.parse
import uuid

import fixtures
from octavia.api import app
from octavia.common import constants
from octavia.common import data_models
from octavia.common import rpc
from octavia.common import utils
from octavia.db import api as db_api
from octavia.db import base_models
from octavia.db import models
from octavia.network import data_models as network_models
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import pecan
import requests
import webob

from octavia_xdp_provider.driver import controller_client
from octavia_xdp_provider.driver import subnets

PROJECT = str(uuid.uuid4())
NETWORK = str(uuid.uuid4())
VIPS = ('203.0.113.0/24', '2001:db8:100::/64')
# Octavia's tables of what there is, and the values that its migrations give
# them.
_LISTS = {
    models.ProvisioningStatus: constants.SUPPORTED_PROVISIONING_STATUSES,
    models.OperatingStatus: constants.SUPPORTED_OPERATING_STATUSES,
    models.HealthMonitorType: constants.SUPPORTED_HEALTH_MONITOR_TYPES,
    models.Algorithm: constants.SUPPORTED_LB_ALGORITHMS,
    models.Protocol: constants.SUPPORTED_PROTOCOLS,
    models.SessionPersistenceType: constants.SUPPORTED_SP_TYPES,
    models.LBTopology: constants.SUPPORTED_LB_TOPOLOGIES,
    models.ClientAuthenticationMode: constants.SUPPORTED_CLIENT_AUTH_MODES,
    models.L7PolicyAction: constants.SUPPORTED_L7POLICY_ACTIONS,
    models.L7RuleType: constants.SUPPORTED_L7RULE_TYPES,
    models.L7RuleCompareType: constants.SUPPORTED_L7RULE_COMPARE_TYPES,
}


class Neutron:
    """Subnets of one network; the family is at the end of a subnet's name."""

    def __init__(self):
        self._names = {}
        self._hosts = 0

    def subnets(self, name=None, id=None):
        """Return an object by name or id, as the SDK does."""
        key = id or str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
        self._names.setdefault(key, name)
        return [{'id': key}]

    def get_subnet(self, subnet_id, context=None):
        return network_models.Subnet(
            id=subnet_id, network_id=NETWORK,
            ip_version=6 if self._is_v6(subnet_id) else 4)

    def get_network(self, network_id, context=None):
        return network_models.Network(id=network_id)

    def allocate_vip(self, load_balancer):
        first, *others = [self._address(vip.subnet_id) for vip in (
            load_balancer.vip, *load_balancer.additional_vips)]
        port = str(uuid.uuid4())
        return data_models.Vip(
            ip_address=first, subnet_id=load_balancer.vip.subnet_id,
            network_id=NETWORK, port_id=port,
            load_balancer_id=load_balancer.id), [
                data_models.AdditionalVip(
                    ip_address=address, subnet_id=vip.subnet_id,
                    network_id=NETWORK, port_id=port,
                    load_balancer_id=load_balancer.id)
                for vip, address in zip(load_balancer.additional_vips,
                                        others, strict=True)]

    def _is_v6(self, subnet_id):
        return (self._names.get(subnet_id) or '').endswith('v6')

    def _address(self, subnet_id):
        self._hosts += 1
        network = VIPS[1 if self._is_v6(subnet_id) else 0]
        return str(ipaddress.ip_network(network)[self._hosts])


class HttpError(Exception):
    """Stands in for keystoneauth's error for an answer other than 2xx."""

    def __init__(self, response):
        # The argument that pickle passes: it may be raised in a child.
        super().__init__(response)
        self.response = response

    def __str__(self):
        return str(self.response.content)


class OctaviaApi(fixtures.Fixture):
    """The API, and the session of a client that uses it."""

    def __init__(self, policy):
        self.policy = policy
        self.neutron = Neutron()

    def _setUp(self):
        # Octavia's own log, which fills the test's.
        self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        # No file of this machine.
        cfg.CONF([], project='octavia', default_config_files=[],
                 default_config_dirs=[])
        conf.config(group='database', connection='sqlite://')
        conf.config(group='api_settings', auth_strategy=constants.NOAUTH,
                    default_provider_driver='xdp',
                    enabled_provider_drivers={'xdp': 'XDP'})
        for target, name, value in (
                (app.octavia_service, 'prepare_service', mock.Mock()),
                (rpc, 'NOTIFIER', mock.Mock()),
                (rpc, 'get_client', mock.Mock()),
                (utils, 'get_network_driver', lambda: self.neutron),
                (controller_client.ControllerClient, 'get',
                 self._controller),
                (subnets.ALL, 'check', mock.Mock()),
                (subnets.ALL, 'check_vips', mock.Mock())):
            self.useFixture(fixtures.MockPatchObject(target, name, value))
        self._database()
        self._app = app.setup_app(argv=[])
        self.addCleanup(pecan.set_config, {}, overwrite=True)

    def _controller(self):
        return types.SimpleNamespace(policy=self.policy, change=mock.Mock(),
                                     check_answers=mock.Mock())

    def _database(self):
        engine = db_api.get_engine()
        base_models.BASE.metadata.create_all(engine)
        self.addCleanup(base_models.BASE.metadata.drop_all, engine)
        session = db_api.get_session()
        with session.begin():
            for table, names in _LISTS.items():
                session.add_all(table(name=name) for name in names)

    def _settle(self):
        """Complete each change, as an agent's report does."""
        session = db_api.get_session()
        with session.begin():
            for table in base_models.BASE.metadata.sorted_tables:
                if 'provisioning_status' in table.c:
                    session.execute(table.update().values(
                        provisioning_status=constants.ACTIVE))

    def request(self, url, method, json=None, headers=None, params=None,
                **_more):
        """Send a request, as a session of keystoneauth does."""
        self._settle()
        request = webob.Request.blank(
            f'{url}?{urllib.parse.urlencode(params or {})}', method=method,
            headers=dict(headers or {}))
        request.environ['HTTP_X_PROJECT_ID'] = PROJECT
        if json is not None:
            request.content_type = 'application/json'
            request.json = json
        response = request.get_response(self._app)
        answer = requests.Response()
        answer.status_code = response.status_code
        answer._content = response.body
        if not 200 <= answer.status_code < 300:
            raise HttpError(answer)
        return answer


# SPDX-License-Identifier: Apache-2.0
"""The driver's calls to the controller, without octavia-api."""

import datetime
import ipaddress
import time
import uuid

from octavia_lib.api.drivers import data_models

from bench.control import cluster as clusters
from bench.control import octavia
from lab import namespaces
from lab import paths
from octavia_xdp_provider.config import options
from octavia_xdp_provider.contracts import rpc

TIMEOUT_S = 30.0
VIPS = ipaddress.ip_network('198.18.0.0/16')


class Driver:
    """The driver's side of the calls."""

    def __init__(self, lab, path):
        conf = options.load(config_files=[str(path)])
        self._lab = lab
        with namespaces.inside(lab, paths.CONTROL):
            self._client = rpc.DriverClient(rpc.transport(conf))
            self._ahead_s = self._client.ping(TIMEOUT_S) - time.time()

    def change(self, change):
        """Request a change; return the id of the request."""
        request = str(uuid.uuid4())
        # Connections are opened on demand, so it has to be inside.
        with namespaces.inside(self._lab, paths.CONTROL):
            answer = self._client.change(
                change, request, time.time() + self._ahead_s + TIMEOUT_S,
                TIMEOUT_S, True)
        if 'accepted' not in answer:
            raise octavia.Failed(f'{datetime.datetime.now()}: {answer}')
        return request

    def committed(self, request):
        with namespaces.inside(self._lab, paths.CONTROL):
            self._client.ended(request, True)


def tree(number, members):
    """Return a load balancer as octavia-api passes it to the driver."""
    def name():
        return str(uuid.uuid4())

    first = int(clusters.MEMBERS[256]) + number * 4 % 2 ** 15
    pool = data_models.Pool(
        pool_id=name(), name='', protocol='TCP', admin_state_up=True,
        lb_algorithm='SOURCE_IP_PORT', members=[
            data_models.Member(
                member_id=name(), name='', protocol_port=80, weight=1,
                admin_state_up=True, backup=False,
                address=str(ipaddress.ip_address(first + index)))
            for index in range(members)],
        healthmonitor=data_models.HealthMonitor(
            healthmonitor_id=name(), name='', type='TCP', delay=60,
            timeout=5, max_retries=2, max_retries_down=2,
            admin_state_up=True))
    listener = data_models.Listener(
        listener_id=name(), name='', protocol='TCP', protocol_port=80,
        admin_state_up=True, default_pool_id=pool.pool_id,
        default_pool=pool)
    return data_models.LoadBalancer(
        loadbalancer_id=name(), name=f'fleet-{number}',
        project_id=32 * '0', admin_state_up=True,
        vip_address=str(VIPS[256 + number]), vip_port_id=name(),
        vip_subnet_id=name(), vip_network_id=name(),
        listeners=[listener], pools=[pool])

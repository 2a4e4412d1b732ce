# SPDX-License-Identifier: Apache-2.0
"""Deletes the Neutron port of a load balancer that was not created.

octavia-api creates the VIP's port before it creates listeners and pools and
calls the driver, and does not delete it when one of these fails: it rolls its
database back and forgets the port. The port is deleted here by the same means
that Octavia uses: octavia-api's network driver and credentials.
"""

import threading
from typing import Any

from octavia_lib.api.drivers import data_models
from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver

from octavia_xdp_provider.driver import bounded_calls

LOG = logging.getLogger(__name__)

# Entry points of Octavia's network drivers.
_NAMESPACE = 'octavia.network.drivers'

# Seconds that the API waits for Neutron. The deletion continues afterwards.
_LIMIT_S = 5.0

# The device_owner of ports that Octavia created.
_OWNER = 'Octavia'


def free(load_balancer: data_models.LoadBalancer) -> None:
    """Delete the port of a load balancer's VIP if Octavia created it.

    Never raises, as callers are about to raise an error of their own.

    :param load_balancer: octavia-lib's object.
    """
    port_id = load_balancer.vip_port_id
    if not isinstance(port_id, str) or not port_id:
        return
    try:
        bounded_calls.within(_LIMIT_S, lambda: _delete(
            port_id, load_balancer.loadbalancer_id))
    except Exception as error:
        LOG.warning('The port %s of the refused load balancer %s could not '
                    'be deleted (%s): delete it in Neutron.', port_id,
                    load_balancer.loadbalancer_id, error)


def free_later(load_balancer_id: str) -> None:
    """Delete the ports of a load balancer that Octavia itself rolled back.

    Returns at once, as the caller is ending a transaction.
    """
    threading.Thread(target=_free_all, args=(load_balancer_id,),
                     name='octavia-xdp port', daemon=True).start()


def _free_all(load_balancer_id: str) -> None:
    try:
        network = _network()
        # Octavia's own search for ports raises if there are none.
        for port in network.network_proxy.ports(
                device_owner=_OWNER, device_id=_device(load_balancer_id)):
            _delete(port.id, load_balancer_id)
    except Exception as error:
        LOG.warning('The port of load balancer %s, which Octavia has rolled '
                    'back, could not be deleted (%s): delete it in Neutron.',
                    load_balancer_id, error)


def _delete(port_id: str, load_balancer_id: str) -> None:
    network = _network()
    port = network.get_port(port_id)
    if (port.device_owner, port.device_id) != (
            _OWNER, _device(load_balancer_id)):
        LOG.info('Port %s of the refused load balancer %s is not Octavia\'s '
                 'and stays.', port_id, load_balancer_id)
        return
    network.delete_port(port_id)
    LOG.info('Deleted port %s of the refused load balancer %s.', port_id,
             load_balancer_id)


def _network() -> Any:
    return driver.DriverManager(
        namespace=_NAMESPACE,
        name=cfg.CONF.controller_worker.network_driver,
        invoke_on_load=True).driver


def _device(load_balancer_id: str) -> str:
    return f'lb-{load_balancer_id}'

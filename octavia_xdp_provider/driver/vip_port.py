# SPDX-License-Identifier: Apache-2.0
"""The Neutron port that octavia-api made for a VIP, if it is to be no more.

Octavia makes the port before it makes listeners and pools and calls the
driver, and does not free it when one of these fails: it rolls its database
back and knows the port no longer. It is deleted here, as Octavia itself
deletes it later on: by the network driver that octavia-api has configured,
with its credentials.
"""

import threading

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver

from octavia_xdp_provider.driver import bounded_calls

LOG = logging.getLogger(__name__)

# Octavia's network drivers, and who says which one.
_NAMESPACE = 'octavia.network.drivers'

# Seconds that the API waits for Neutron, which goes on afterwards.
_LIMIT_S = 5.0

# What Octavia calls the owner of ports that it made.
_OWNER = 'Octavia'


def free(load_balancer):
    """Delete the port of a load balancer's VIP if Octavia made it.

    It never fails: what it is called for is an error already.

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


def free_later(load_balancer_id):
    """The same of a load balancer that Octavia has rolled back by itself.

    Nobody waits for it: the caller ends a transaction.
    """
    threading.Thread(target=_free_all, args=(load_balancer_id,),
                     name='octavia-xdp port', daemon=True).start()


def _free_all(load_balancer_id):
    try:
        network = _network()
        # Octavia's own search for ports fails where there are none.
        for port in network.network_proxy.ports(
                device_owner=_OWNER, device_id=_device(load_balancer_id)):
            _delete(port.id, load_balancer_id)
    except Exception as error:
        LOG.warning('The port of load balancer %s, which Octavia has rolled '
                    'back, could not be deleted (%s): delete it in Neutron.',
                    load_balancer_id, error)


def _delete(port_id, load_balancer_id):
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


def _network():
    return driver.DriverManager(
        namespace=_NAMESPACE,
        name=cfg.CONF.controller_worker.network_driver,
        invoke_on_load=True).driver


def _device(load_balancer_id):
    return f'lb-{load_balancer_id}'

# SPDX-License-Identifier: Apache-2.0
"""Whether members lie in the subnets that they name: [members] check_subnets.

Octavia looks at the subnet of a member that is created by itself or in a
batch: it must exist, and the user must see it. It does not look at those that
come with a pool or a load balancer, and nowhere at the address. Neutron is
asked as Octavia asks it: by the network driver that octavia-api has
configured, with its credentials, and reading only.
"""

import ipaddress
import threading
import time

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver

from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import translate
from octavia_xdp_provider.driver import bounded_calls

LOG = logging.getLogger(__name__)

# Octavia's network drivers, and what they raise for what is not there.
_NAMESPACE = 'octavia.network.drivers'
_NOT_FOUND = 'SubnetNotFound'

# Seconds that the API waits for Neutron; and for which an answer holds: the
# CIDR of a subnet never changes.
_LIMIT_S = 3.0
_HOLDS_S = 60.0
_KEPT_MAX = 1024


class Subnets:
    """CIDRs of subnets, for all threads of a process."""

    def __init__(self):
        self._lock = threading.Lock()
        self._known = {}  # id → (when, network or None: there is none)

    def check(self, members):
        """Check members that are new.

        :param members: octavia-lib's objects or dictionaries.
        :raises Refused: names what is wrong; also if Neutron does not answer.
        """
        for member in members:
            given = translate.attributes(member)
            subnet = given.get('subnet_id')
            address = given.get('address')
            if subnet and address:
                self._check(subnet, ipaddress.ip_address(address))

    def _check(self, subnet, address):
        network = self._network(subnet)
        if network is None:
            raise errors.Refused('subnet_id', f'there is no subnet {subnet}',
                                 'name a subnet of Neutron, or none')
        if address not in network:
            raise errors.Refused(
                'subnet_id', f'{address} is not in subnet {subnet}, which is '
                f'{network}', 'name the subnet that the member is in, or none')

    def _network(self, subnet):
        now = time.monotonic()
        with self._lock:
            when, network = self._known.get(subnet, (None, None))
        if when is not None and now - when < _HOLDS_S:
            return network
        try:
            network = bounded_calls.within(_LIMIT_S, lambda: _look_up(subnet))
        except Exception as error:
            LOG.warning('Subnet %s of a member could not be looked up: %s',
                        subnet, error)
            raise errors.Refused(
                'subnet_id', f'Neutron did not say what subnet {subnet} is',
                'try again') from error
        with self._lock:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            self._known[subnet] = (now, network)
        return network


def _look_up(subnet):
    """The network of a subnet; None: there is no such subnet."""
    network = driver.DriverManager(
        namespace=_NAMESPACE,
        name=cfg.CONF.controller_worker.network_driver,
        invoke_on_load=True).driver
    try:
        return ipaddress.ip_network(network.get_subnet(subnet).cidr)
    except Exception as error:
        # Octavia is not imported, as whichever version there is brings it.
        if type(error).__name__ == _NOT_FOUND:
            return None
        raise


ALL = Subnets()

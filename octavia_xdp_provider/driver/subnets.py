# SPDX-License-Identifier: Apache-2.0
"""Whether a load balancer's project may use the subnets that members name.

Where members are reached through their hypervisors, a subnet and an address
name a port of Neutron, and a subnet's id is no secret. Octavia looks whether
its user sees the subnet of a member that is created by itself or in a batch,
and not at those that come with a pool or a load balancer. The controllers look
again whenever they look for the port, as networks may be shared no longer.

With [members] check_subnets the address must lie in the subnet, too. Neutron
is asked as Octavia asks it: by the network driver that octavia-api has
configured, with its credentials, and reading only.
"""

import dataclasses
import ipaddress
import threading
import time

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver

from octavia_xdp_provider.common import address_policy
from octavia_xdp_provider.common import errors
from octavia_xdp_provider.common import translate
from octavia_xdp_provider.driver import bounded_calls

LOG = logging.getLogger(__name__)

# Octavia's network drivers, and what they raise for what is not there.
_NAMESPACE = 'octavia.network.drivers'
_NOT_FOUND = 'SubnetNotFound'

# Seconds that the API waits for Neutron; and for which an answer holds: the
# CIDR of a subnet never changes, and who may use a network rarely.
_LIMIT_S = 3.0
_HOLDS_S = 60.0
_KEPT_MAX = 1024

# Of RBAC policies: the action that lets a project have ports, and the target
# that stands for all projects.
_SHARED = 'access_as_shared'
_EVERYBODY = '*'


@dataclasses.dataclass(frozen=True)
class _Subnet:
    """:param projects: those that may use it."""

    network: address_policy.Network
    projects: frozenset[str]


class Subnets:
    """What Neutron says of subnets, for all threads of a process."""

    def __init__(self):
        self._lock = threading.Lock()
        self._known = {}  # id → (when, _Subnet or None: there is none)

    def check(self, members, addresses=False):
        """Check members that are new.

        :param members: octavia-lib's objects or dictionaries.
        :param addresses: whether they must lie in their subnets.
        :raises Refused: names what is wrong; also if Neutron does not answer.
        """
        for member in members:
            given = translate.attributes(member)
            if given.get('subnet_id'):
                subnet = self._subnet(given['subnet_id'])
                _check_project(given, subnet)
                if addresses and given.get('address'):
                    _check_address(given, subnet)

    def _subnet(self, subnet_id):
        now = time.monotonic()
        with self._lock:
            when, subnet = self._known.get(subnet_id, (None, None))
        if when is not None and now - when < _HOLDS_S:
            return subnet
        try:
            subnet = bounded_calls.within(_LIMIT_S,
                                          lambda: _look_up(subnet_id))
        except Exception as error:
            LOG.warning('Subnet %s of a member could not be looked up: %s',
                        subnet_id, error)
            raise errors.Refused(
                'subnet_id', f'Neutron did not say what subnet {subnet_id} is',
                'try again') from error
        with self._lock:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            self._known[subnet_id] = (now, subnet)
        return subnet


def _check_project(given, subnet):
    """As for one that is not there, so that it does not show which exist."""
    if subnet is None or not subnet.projects & {given.get('project_id'),
                                                _EVERYBODY}:
        raise errors.Refused(
            'subnet_id', f'there is no subnet {given["subnet_id"]} that the '
            'load balancer\'s project may use', 'name a subnet of a network '
            'that is the project\'s own or shared with it, or none')


def _check_address(given, subnet):
    if ipaddress.ip_address(given['address']) not in subnet.network:
        raise errors.Refused(
            'subnet_id', f'{given["address"]} is not in subnet '
            f'{given["subnet_id"]}, which is {subnet.network}',
            'name the subnet that the member is in, or none')


def _look_up(subnet_id):
    """What Neutron has of a subnet; None: there is no such subnet."""
    network = driver.DriverManager(
        namespace=_NAMESPACE,
        name=cfg.CONF.controller_worker.network_driver,
        invoke_on_load=True).driver
    try:
        subnet = network.get_subnet(subnet_id)
    except Exception as error:
        # Octavia is not imported, as whichever version there is brings it.
        if type(error).__name__ == _NOT_FOUND:
            return None
        raise
    owner = network.get_network(subnet.network_id).project_id
    # Octavia's own model of a network has nothing of whom it is shared with,
    # and Neutron's "shared" is also true of one that is shared with Octavia.
    shares = network.network_proxy.rbac_policies(
        object_type='network', object_id=subnet.network_id, action=_SHARED)
    return _Subnet(ipaddress.ip_network(subnet.cidr), frozenset(
        (owner, *(share.target_project_id for share in shares))))


ALL = Subnets()

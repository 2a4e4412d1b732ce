# SPDX-License-Identifier: Apache-2.0
"""Whether a load balancer's project may use the subnets that members name,
and whether those of VIPs are the operator's.

Where members are reached through their hypervisors, a subnet and an address
name a port of Neutron, and a subnet's id is no secret. Octavia looks whether
its user sees the subnet of a member that is created by itself or in a batch,
and not at those that come with a pool or a load balancer. The controllers look
again whenever they look for the port, as networks may be shared no longer.

A network is the operator's that Neutron has for everybody, shared or external.
Only an administrator can make it so. Neutron's own "shared" and
"router:external" do not say that: they are also true of a network that its
owner has shared with the project of Octavia, or has made external for one.

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

# Of RBAC policies: the actions that let a project have ports and floating IPs,
# and the target that stands for all projects.
_SHARED, _EXTERNAL = 'access_as_shared', 'access_as_external'
_EVERYBODY = '*'


@dataclasses.dataclass(frozen=True)
class _Subnet:
    """:param projects: those that may use it.
    :param is_operators: whether only an administrator could make its network.
    """

    network: address_policy.Network
    projects: frozenset[str]
    gateway: address_policy.Address | None
    is_operators: bool


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
                subnet = self._subnet('subnet_id', given['subnet_id'])
                _check_project(given, subnet)
                if addresses and given.get('address'):
                    _check_address(given, subnet)

    def check_vips(self, fields, are_named):
        """Check the VIPs of a new load balancer.

        :param fields: of it (common/translate.py). Addresses that Neutron is
            still to choose are missing.
        :param are_named: whether the operator names the subnets of VIPs.
        :raises Refused: as check() does.
        """
        for option, subnet_id, address in _vips(fields):
            if not subnet_id:
                continue  # Octavia chooses it first.
            subnet = self._subnet(option, subnet_id)
            if subnet is None:
                raise errors.Refused(
                    option, f'there is no subnet {subnet_id}',
                    'name the subnet of the VIP')
            if not (are_named or subnet.is_operators):
                raise errors.Refused(
                    option, f'subnet {subnet_id} is of a project\'s own '
                    'network, with whatever addresses the project chooses, '
                    'and a VIP is announced to the whole fabric',
                    'create the VIP on a subnet that the operator has for '
                    'VIPs of this provider',
                    'without [vip] subnet_ids and network_ids, its network '
                    'has to be shared with all projects or external for all')
            if address and ipaddress.ip_address(address) == subnet.gateway:
                raise errors.Refused('vip_address', *address_policy.taken(
                    address, f'it is the gateway of subnet {subnet_id}'))

    def _subnet(self, option, subnet_id):
        now = time.monotonic()
        with self._lock:
            when, subnet = self._known.get(subnet_id, (None, None))
        if when is not None and now - when < _HOLDS_S:
            return subnet
        try:
            subnet = bounded_calls.within(_LIMIT_S,
                                          lambda: _look_up(subnet_id))
        except Exception as error:
            LOG.warning('Subnet %s of a load balancer could not be looked '
                        'up: %s', subnet_id, error)
            raise errors.Refused(
                option, f'Neutron did not say what subnet {subnet_id} is',
                'try again') from error
        with self._lock:
            if len(self._known) >= _KEPT_MAX:
                self._known.clear()
            self._known[subnet_id] = (now, subnet)
        return subnet


def _vips(fields):
    """Of each VIP the option that names it, its subnet and its address."""
    yield 'vip_subnet_id', fields.get('vip_subnet_id'), fields.get(
        'vip_address')
    for vip in fields.get('additional_vips') or ():
        yield 'additional_vips', vip.get('subnet_id'), vip.get('ip_address')


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
    shares = {(share.action, share.target_project_id)
              for share in network.network_proxy.rbac_policies(
                  object_type='network', object_id=subnet.network_id)}
    return _Subnet(
        ipaddress.ip_network(subnet.cidr),
        frozenset((owner, *(project for action, project in shares
                            if action == _SHARED))),
        ipaddress.ip_address(subnet.gateway_ip) if subnet.gateway_ip else None,
        bool(shares & {(_SHARED, _EVERYBODY), (_EXTERNAL, _EVERYBODY)}))


ALL = Subnets()

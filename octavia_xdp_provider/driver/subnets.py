# SPDX-License-Identifier: Apache-2.0
"""Checks of the Neutron subnets that members and VIPs name.

A load balancer's project must be allowed to use the subnets of its members,
and the subnets of VIPs must belong to the operator.

For members behind hypervisors, a subnet and an address identify a Neutron
port, and a subnet's id is no secret. Octavia checks that its user can see the
subnet of a member that is created by itself or in a batch, but not of members
that come with a pool or a load balancer. The controllers check again whenever
they search for the port, as a network's sharing may have been revoked.

A network is the operator's if it is shared with all projects or external for
all projects, which only an administrator can do. Neutron's "shared" and
"router:external" do not imply that: they are also true of a network that its
owner has shared with Octavia's project, or has made external for one project.

With [members] check_subnets the address must also lie in the subnet. Neutron
is queried by octavia-api's own network driver, with its credentials.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import ipaddress
import threading
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver

from octavia_xdp_provider.api import translate
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.driver import bounded_calls

LOG = logging.getLogger(__name__)

# Entry points of Octavia's network drivers, and the name of the exception that
# they raise for a missing subnet.
_NAMESPACE = 'octavia.network.drivers'
_NOT_FOUND = 'SubnetNotFound'

# Seconds that the API waits for Neutron.
_LIMIT_S = 3.0
# Seconds for which an answer is cached: the CIDR of a subnet never changes,
# and the projects that may use a network change rarely.
_HOLDS_S = 60.0
_CACHED_MAX = 1024

# RBAC policies: the actions that let a project create ports and floating IPs,
# and the target that stands for all projects.
_SHARED, _EXTERNAL = 'access_as_shared', 'access_as_external'
_EVERYBODY = '*'


@dataclasses.dataclass(frozen=True)
class _Subnet:
    """A subnet of Neutron.

    :param projects: ids of the projects that may use it.
    :param is_operators: whether only an administrator can have created its
        network.
    """

    network: address_policy.Network
    projects: frozenset[str]
    gateway: address_policy.Address | None
    is_operators: bool


class Subnets:
    """Cached subnets of Neutron, for all threads of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # id → (time, subnet, or None if there is none)
        self._cache: dict[str, tuple[float, _Subnet | None]] = {}

    def check(self, members: Iterable[Any], addresses: bool = False) -> None:
        """Check the subnets of new members.

        :param members: octavia-lib's objects or dictionaries.
        :param addresses: whether addresses must lie in their subnets.
        :raises Refused: names the first invalid option, or tells that Neutron
            did not answer.
        """
        for member in members:
            given = translate.attributes(member)
            if given.get('subnet_id'):
                subnet = self._subnet('subnet_id', given['subnet_id'])
                _check_project(given, subnet)
                if subnet and addresses and given.get('address'):
                    _check_address(given, subnet)

    def check_vips(self, fields: spec.Fields, are_named: bool) -> None:
        """Check the subnets of a new load balancer's VIPs.

        :param fields: the load balancer's fields (api/translate.py),
            without addresses that Neutron is yet to allocate.
        :param are_named: whether the operator configured the VIPs' subnets.
        :raises Refused: as check() does.
        """
        for option, subnet_id, address in _vips(fields):
            if not subnet_id:
                continue  # Octavia has not chosen it yet.
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

    def _subnet(self, option: str, subnet_id: str) -> _Subnet | None:
        now = time.monotonic()
        with self._lock:
            when, subnet = self._cache.get(subnet_id, (None, None))
        if when is not None and now - when < _HOLDS_S:
            return subnet
        try:
            subnet = bounded_calls.within(_LIMIT_S,
                                          lambda: _look_up(subnet_id))
        except Exception as error:
            LOG.warning('Failed to look up subnet %s of a load balancer: '
                        '%s', subnet_id, error)
            raise errors.Refused(
                option, f'Neutron did not answer for subnet {subnet_id}',
                'try again') from error
        with self._lock:
            if len(self._cache) >= _CACHED_MAX:
                self._cache.clear()
            self._cache[subnet_id] = (now, subnet)
        return subnet


def _vips(fields: spec.Fields) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield (name of the option, subnet id, address) of each VIP."""
    yield 'vip_subnet_id', fields.get('vip_subnet_id'), fields.get(
        'vip_address')
    for vip in fields.get('additional_vips') or ():
        yield 'additional_vips', vip.get('subnet_id'), vip.get('ip_address')


def _check_project(given: dict[str, Any], subnet: _Subnet | None) -> None:
    """Refuse a subnet that the member's project may not use.

    The text is the same as for a missing subnet, so as not to reveal which
    subnets exist.
    """
    if subnet is None or not subnet.projects & {given.get('project_id'),
                                                _EVERYBODY}:
        raise errors.Refused(
            'subnet_id', f'there is no subnet {given["subnet_id"]} that the '
            'load balancer\'s project may use', 'name a subnet of a network '
            'that is the project\'s own or shared with it, or none')


def _check_address(given: dict[str, Any], subnet: _Subnet) -> None:
    if ipaddress.ip_address(given['address']) not in subnet.network:
        raise errors.Refused(
            'subnet_id', f'{given["address"]} is not in subnet '
            f'{given["subnet_id"]}, which is {subnet.network}',
            'name the subnet that the member is in, or none')


def _look_up(subnet_id: str) -> _Subnet | None:
    """Return Neutron's subnet as a _Subnet, or None if there is none."""
    network: Any = driver.DriverManager(
        namespace=_NAMESPACE,
        name=cfg.CONF.controller_worker.network_driver,
        invoke_on_load=True).driver
    try:
        subnet = network.get_subnet(subnet_id)
    except Exception as error:
        # By name, as the driver must not import Octavia's classes.
        if type(error).__name__ == _NOT_FOUND:
            return None
        raise
    owner = network.get_network(subnet.network_id).project_id
    # Octavia's own model of a network lacks the projects that share it, and
    # Neutron's "shared" is also true if it is only shared with Octavia.
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

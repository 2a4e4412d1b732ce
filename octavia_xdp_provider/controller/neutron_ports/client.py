# SPDX-License-Identifier: Apache-2.0
"""Calls of Neutron's API, each with a time limit.

Only delete_port changes something; controllers do not use it.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import itertools
from typing import Any
from typing import TypeVar

from keystoneauth1 import exceptions
from oslo_config import cfg

from octavia_xdp_provider.controller import keystone_options
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.neutron_ports import options
from octavia_xdp_provider.controller.octavia import limited

# Limit of one list, in time-outs: it may need a token, and has pages.
_TIMEOUTS = 3
_CALLS_MAX = 4
# Values of a filter in one request: an id takes some 40 bytes of the URL, and
# servers accept URLs of 8,000 bytes.
_VALUES_MAX = 100
_PAGE = 500
# The action of RBAC policies that let other projects have ports.
_SHARED = 'access_as_shared'

Row = dict[str, Any]
_T = TypeVar('_T')


class Neutron:
    """A client of Neutron's API. Thread-safe.

    All calls raise NeutronUnavailable. Rows are dictionaries with the API's
    own names.
    """

    def __init__(self, conf: cfg.ConfigOpts,
                 answered: Callable[[], None] = lambda: None) -> None:
        """:param answered: called after each list that was received.

        :raises ConfigurationError: credentials are missing.
        """
        self._answered = answered
        session = options.load_session(conf)
        # Imported here as it takes a second, and only this class needs it.
        from openstack import connection
        self._network = connection.Connection(
            session=session, oslo_conf=conf,
            service_types=['network']).network
        self._limited = limited.Limited(
            'Neutron\'s API', _CALLS_MAX,
            _TIMEOUTS * (conf[options.GROUP].timeout
                         or keystone_options.TIMEOUT_S),
            errors.NeutronUnavailable)

    def ports(self, addresses: Iterable[str], **filters: str) -> list[Row]:
        """Return the ports that have one of these addresses.

        :param filters: the API's filters subnet_id or project_id.
        """
        subnet = filters.pop('subnet_id', None)
        fixed = [f'subnet_id={subnet}'] if subnet else []
        return self._all(
            self._network.ports, 'fixed_ips',
            [f'ip_address={address}' for address in addresses], fixed,
            filters)

    def ports_of_owner(self, owner: str) -> list[Row]:
        """Return the ports with this ``device_owner``."""
        return self._list(self._network.ports, {
            'device_owner': owner, 'limit': _PAGE})

    def delete_port(self, port_id: str) -> None:
        """Delete a port, which may be missing."""
        self._limited.call(_delete, self._network, port_id)

    def gateways(self, subnets: Iterable[Row]) -> list[Row]:
        """Return the ports that have the gateway address of a subnet.

        The address may be in another subnet: callers have to check each port.
        """
        ports = []
        for part in _portions((row for row in subnets
                               if row.get('gateway_ip')), _VALUES_MAX // 2):
            ports += self._all(
                self._network.ports, 'fixed_ips',
                [f'ip_address={row["gateway_ip"]}' for row in part],
                [f'subnet_id={row["id"]}' for row in part])
        return ports

    def networks(self, ids: Iterable[str]) -> list[Row]:
        """Return networks by id, without missing ones."""
        return self._all(self._network.networks, 'id', ids)

    def subnets(self, ids: Iterable[str]) -> list[Row]:
        """Return subnets by id, without missing ones."""
        return self._all(self._network.subnets, 'id', ids)

    def routers(self, ids: Iterable[str]) -> list[Row]:
        """Return routers by id, without those hidden from the user."""
        return self._all(self._network.routers, 'id', ids)

    def security_groups(self, ids: Iterable[str]) -> list[Row]:
        """Return security groups by id, with their rules, without those hidden
        from the user."""
        return self._all(self._network.security_groups, 'id', ids)

    def ports_of_groups(self, ids: Iterable[str]) -> list[Row]:
        """Return the ports in one of these security groups."""
        return self._all(self._network.ports, 'security_groups', ids)

    def address_groups(self, ids: Iterable[str]) -> list[Row]:
        """Return address groups by id, without missing ones."""
        wanted = set(ids)
        return [row for row in self._list(
            self._network.address_groups, {'limit': _PAGE})
            if row['id'] in wanted] if wanted else []

    def shares(self, network_ids: Iterable[str]) -> list[Row]:
        """Return the RBAC policies that let projects use these networks,
        without those hidden from the user.

        The attribute ``shared`` of a network is no substitute: it is also
        true if a network is shared with this user's own project.
        """
        return [row for row in self._all(
            self._network.rbac_policies, 'object_id', network_ids,
            filters={'object_type': 'network'})
            if row['action'] == _SHARED]

    def _all(self, listed: Callable[..., Iterable[Any]], name: str,
             values: Iterable[str], always: Iterable[str] = (),
             filters: dict[str, str] | None = None) -> list[Row]:
        """Return all rows of a list that match one of the filter's values.
        """
        rows: list[Row] = []
        for part in _portions(sorted(set(values)), _VALUES_MAX):
            query = {**(filters or {}), name: [*always, *part],
                     'limit': _PAGE}
            rows += self._list(listed, query)
        return rows

    def _list(self, listed: Callable[..., Iterable[Any]],
              query: dict[str, Any]) -> list[Row]:
        rows: list[Row] = self._limited.call(_rows, listed, query)
        self._answered()
        return rows


def _rows(listed: Callable[..., Iterable[Any]], query: dict[str, Any]
          ) -> list[Row]:
    with _translated():
        return [row.to_dict(original_names=True) for row in listed(**query)]


def _delete(network: Any, port_id: str) -> None:
    with _translated():
        network.delete_port(port_id)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    from openstack import exceptions as sdk
    try:
        yield
    except (exceptions.ClientException, sdk.SDKException, ValueError
            ) as error:
        raise errors.NeutronUnavailable(
            f'Neutron\'s API: {error or type(error).__name__}') from error


def _portions(values: Iterable[_T], number: int) -> Iterator[list[_T]]:
    rest = iter(values)
    while part := list(itertools.islice(rest, number)):
        yield part

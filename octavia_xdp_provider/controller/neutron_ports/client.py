# SPDX-License-Identifier: Apache-2.0
"""Reading calls of Neutron's API, each within a bounded time."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import itertools
from typing import Any
from typing import TypeVar

from keystoneauth1 import exceptions
from oslo_config import cfg

from octavia_xdp_provider.controller import keystone_options
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.neutron_ports import options
from octavia_xdp_provider.controller.octavia import limited

# What one list may take, in time-outs: it may need a token, and has pages.
_TIMEOUTS = 3
_CALLS_MAX = 4
# Values of a filter in one request; an id takes some 40 bytes of the URL,
# of which servers take 8,000.
_VALUES_MAX = 100
_PAGE = 500
# Of RBAC policies: other projects may have ports there.
_SHARED = 'access_as_shared'

Row = dict[str, Any]
_T = TypeVar('_T')


class Neutron:
    """Neutron's API. Any thread may use it.

    All calls raise NeutronUnavailable. Rows are dictionaries with the API's
    own names.
    """

    def __init__(self, conf: cfg.ConfigOpts,
                 answered: Callable[[], None] = lambda: None) -> None:
        """:param answered: called after each list that has come.

        :raises ConfigurationError: credentials are missing.
        """
        self._answered = answered
        session = options.load_session(conf)
        # It takes a second, and not all who read this module need it.
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
        """Ports that have one of these addresses.

        :param filters: subnet_id, project_id: as the API has them.
        """
        subnet = filters.pop('subnet_id', None)
        fixed = [f'subnet_id={subnet}'] if subnet else []
        return self._all(
            self._network.ports, 'fixed_ips',
            [f'ip_address={address}' for address in addresses], fixed,
            filters)

    def gateways(self, subnets: Iterable[Row]) -> list[Row]:
        """Ports that have the gateway address of one of these subnets.

        Some may have that of another subnet only: each has to be looked at.
        """
        found = []
        for part in _portions((row for row in subnets
                               if row.get('gateway_ip')), _VALUES_MAX // 2):
            found += self._all(
                self._network.ports, 'fixed_ips',
                [f'ip_address={row["gateway_ip"]}' for row in part],
                [f'subnet_id={row["id"]}' for row in part])
        return found

    def networks(self, ids: Iterable[str]) -> list[Row]:
        """Networks by id; what is not there is left out."""
        return self._all(self._network.networks, 'id', ids)

    def subnets(self, ids: Iterable[str]) -> list[Row]:
        """Subnets by id; what is not there is left out."""
        return self._all(self._network.subnets, 'id', ids)

    def routers(self, ids: Iterable[str]) -> list[Row]:
        """Routers by id.

        What the user may not see is left out without a word.
        """
        return self._all(self._network.routers, 'id', ids)

    def security_groups(self, ids: Iterable[str]) -> list[Row]:
        """Security groups by id, with their rules.

        What the user may not see is left out without a word.
        """
        return self._all(self._network.security_groups, 'id', ids)

    def ports_of_groups(self, ids: Iterable[str]) -> list[Row]:
        """Ports that are in one of these security groups."""
        return self._all(self._network.ports, 'security_groups', ids)

    def address_groups(self, ids: Iterable[str]) -> list[Row]:
        """Address groups by id; what is not there is left out."""
        wanted = set(ids)
        return [row for row in self._list(
            self._network.address_groups, {'limit': _PAGE})
            if row['id'] in wanted] if wanted else []

    def shares(self, network_ids: Iterable[str]) -> list[Row]:
        """RBAC policies that let projects use one of these networks.

        Those that the user may not see are left out without a word. The
        ``shared`` of a network is no substitute: it is also true of one that
        is shared with the project of the user who asks.
        """
        return [row for row in self._all(
            self._network.rbac_policies, 'object_id', network_ids,
            filters={'object_type': 'network'})
            if row['action'] == _SHARED]

    def _all(self, listed: Callable[..., Iterable[Any]], name: str,
             values: Iterable[str], always: Iterable[str] = (),
             filters: dict[str, str] | None = None) -> list[Row]:
        """All rows of a list where a filter has one of some values."""
        found: list[Row] = []
        for part in _portions(sorted(set(values)), _VALUES_MAX):
            query = {**(filters or {}), name: [*always, *part],
                     'limit': _PAGE}
            found += self._list(listed, query)
        return found

    def _list(self, listed: Callable[..., Iterable[Any]],
              query: dict[str, Any]) -> list[Row]:
        rows: list[Row] = self._limited.call(_rows, listed, query)
        self._answered()
        return rows


def _rows(listed: Callable[..., Iterable[Any]], query: dict[str, Any]
          ) -> list[Row]:
    from openstack import exceptions as sdk
    try:
        return [row.to_dict(original_names=True) for row in listed(**query)]
    except (exceptions.ClientException, sdk.SDKException, ValueError
            ) as error:
        raise errors.NeutronUnavailable(
            f'Neutron\'s API: {error or type(error).__name__}') from error


def _portions(values: Iterable[_T], number: int) -> Iterator[list[_T]]:
    rest = iter(values)
    while part := list(itertools.islice(rest, number)):
        yield part

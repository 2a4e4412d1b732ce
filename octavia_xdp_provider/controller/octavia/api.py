# SPDX-License-Identifier: Apache-2.0
"""Reads provisioning statuses and lists load balancers by Octavia's API.

octavia-driver-agent offers neither. Nothing is changed through the API.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import re
from typing import Any

from keystoneauth1 import exceptions
from oslo_config import cfg

from octavia_xdp_provider.contracts import spec
from octavia_xdp_provider.controller import keystone_options
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.octavia import limited
from octavia_xdp_provider.controller.octavia import options

# Name of the driver's entry point, which is the provider's name in Octavia.
PROVIDER = 'xdp'
# Limit of one request, in time-outs: it may have to fetch a token first.
_TIMEOUTS = 3
# Concurrent calls; the requests library keeps at least as many connections.
_CALLS_MAX = 8
_NO_PROJECT = 32 * '0'
_VERSION = re.compile(r'/v2(\.\d+)?$')

_ADVICE: dict[type[Exception], str] = {
    exceptions.Unauthorized: ' Check user and password in '
                             f'[{options.GROUP}].',
    exceptions.Forbidden: f' The user of [{options.GROUP}] may not read the '
                          'load balancers of all projects: assign it a role '
                          'that Octavia\'s policy "load-balancer:'
                          'global_observer" names.',
}

Query = dict[str, Any]
Tree = dict[spec.Object, str]


@dataclasses.dataclass(frozen=True)
class Listed:
    """A load balancer in Octavia's list.

    ``updated_at``: Octavia's text, or None if it was not changed since its
    creation.
    """

    id: str
    provisioning_status: str
    operating_status: str
    updated_at: str | None


class Api:
    """A client of Octavia's API. Thread-safe.

    All calls raise OctaviaUnavailable.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigurationError: credentials are missing."""
        self._adapter = options.load_adapter(conf)
        section = conf[options.GROUP]
        self._page_size = section.page_size
        self._limited = limited.Limited(
            'Octavia\'s API', _CALLS_MAX,
            _TIMEOUTS * (section.timeout or keystone_options.TIMEOUT_S))

    def listed(self) -> Iterator[Listed]:
        """Yield all load balancers of this provider, oldest first.

        Load balancers that are created or deleted meanwhile may be missing.

        :raises OctaviaUnavailable: not all could be listed.
        """
        # Octavia silently omits load balancers that the user may not see. It
        # refuses to list another project's to a user who may not see all.
        self._get('loadbalancers', {'project_id': _NO_PROJECT, 'limit': 1})
        for row in self._rows('loadbalancers', {
                'provider': PROVIDER, 'fields': [
                    'id', 'provider', 'provisioning_status',
                    'operating_status', 'updated_at']}):
            with _parsing():
                # Octavia ignores the filter if filtering is switched off.
                is_own = row['provider'] == PROVIDER
                listed = Listed(
                    row['id'], row['provisioning_status'],
                    row['operating_status'], row.get('updated_at'))
            if is_own:
                yield listed

    def provisioning_status(self, load_balancer_id: str) -> str | None:
        """Return a load balancer's own status, or None if there is none."""
        answer = self._get(f'loadbalancers/{load_balancer_id}',
                           {'fields': ['provisioning_status']},
                           missing=load_balancer_id)
        if answer is None:
            return None
        with _parsing():
            return str(answer['loadbalancer']['provisioning_status'])

    def tree(self, load_balancer_id: str) -> Tree | None:
        """Return the provisioning status of a load balancer's objects.

        :returns: (kind, id) → status, or None if there is no such load
            balancer. There is none if it is DELETED.
        """
        answer = self._get(f'loadbalancers/{load_balancer_id}/status',
                           missing=load_balancer_id)
        if answer is None:
            return None
        tree: Tree = {}
        with _parsing():
            _add_used(tree, answer['statuses']['loadbalancer'])
        # The status tree lacks pools that no listener uses, and L7 policies.
        for pool in self._rows('pools', {
                'loadbalancer_id': load_balancer_id, 'fields': [
                    'id', 'provisioning_status', 'healthmonitor_id',
                    'loadbalancers']}):
            with _parsing():
                unused = (('pool', pool['id']) not in tree and
                          {'id': load_balancer_id} in pool['loadbalancers'])
            if unused:
                self._add_unused(tree, pool)
        if any(kind == 'listener' for kind, _key in tree):
            self._add_policies(tree, load_balancer_id)
        return tree

    def _add_policies(self, tree: Tree, load_balancer_id: str) -> None:
        """Add the L7 policies and rules of all listeners in the tree."""
        for listener in list(self._rows('listeners', {
                'loadbalancer_id': load_balancer_id,
                'fields': ['id', 'l7policies']})):
            with _parsing():
                listener_id = listener['id']
                has_policies = (bool(listener['l7policies'])
                                and ('listener', listener_id) in tree)
            if not has_policies:
                continue
            for policy in list(self._rows('l7policies', {
                    'listener_id': listener_id, 'fields': [
                        'id', 'provisioning_status', 'listener_id',
                        'rules']})):
                with _parsing():
                    if policy['listener_id'] != listener_id:
                        continue
                    _add(tree, 'l7policy', policy)
                    policy_id, has_rules = policy['id'], policy['rules']
                if has_rules:
                    self._add_rules(tree, policy_id)

    def _add_rules(self, tree: Tree, policy_id: str) -> None:
        for rule in self._rows(f'l7policies/{policy_id}/rules', {
                'fields': ['id', 'provisioning_status']}, missing=policy_id):
            with _parsing():
                _add(tree, 'l7rule', rule)

    def _add_unused(self, tree: Tree, pool: dict[str, Any]) -> None:
        with _parsing():
            _add(tree, 'pool', pool)
            # Octavia omits the field if there is no monitor.
            pool_id, monitor_id = pool['id'], pool.get('healthmonitor_id')
        for member in self._rows(f'pools/{pool_id}/members', {
                'fields': ['id', 'provisioning_status']}, missing=pool_id):
            with _parsing():
                _add(tree, 'member', member)
        if monitor_id:
            answer = self._get(f'healthmonitors/{monitor_id}',
                               missing=monitor_id)
            if answer is not None:
                with _parsing():
                    _add(tree, 'healthmonitor', answer['healthmonitor'])

    def _rows(self, collection: str, query: Query,
              missing: str | None = None) -> Iterator[Any]:
        """Yield all rows of a list, requesting each page when needed.

        :param missing: see _get; there are no rows then.
        """
        query = {**query, 'limit': self._page_size}
        name = collection.rpartition('/')[2]
        more = True
        while more:
            answer = self._get(collection, query, missing)
            if answer is None:
                return
            with _parsing():
                page = list(answer[name])
                # A full page has a next one, which may be empty.
                more = bool(page) and any(
                    link['rel'] == 'next'
                    for link in answer.get(f'{name}_links') or ())
                if more:
                    query['marker'] = page[-1]['id']
            yield from page

    def _get(self, path: str, query: Query | None = None,
             missing: str | None = None) -> Any | None:
        """Return the answer to a request.

        :param missing: id of an object that may not exist; the answer is None
            if Octavia reports that.
        """
        return self._limited.call(self._request, path, query or {}, missing)

    def _request(self, path: str, query: Query, missing: str | None
                 ) -> Any | None:
        try:
            endpoint = self._adapter.get_endpoint() or ''
            # The catalogue's endpoint may or may not include the version.
            version = '' if _VERSION.search(endpoint.rstrip('/')) else '/v2.0'
            answer = self._adapter.get(f'{version}/lbaas/{path}',
                                       params=query).json()
            if not isinstance(answer, dict):
                raise ValueError('the answer is no object')
            return answer
        except (exceptions.ClientException, ValueError) as error:
            if missing is not None and _is_missing(error, missing):
                return None
            raise errors.OctaviaUnavailable(
                f'Octavia\'s API: {error or type(error).__name__}'
                f'{_ADVICE.get(type(error), "")}') from error


def _is_missing(error: Exception, key: str) -> bool:
    """Return whether Octavia itself reports that the object does not exist.

    Proxies, and Octavia for an unknown path, answer 404 as well.
    """
    if not isinstance(error, exceptions.NotFound) or error.response is None:
        return False
    try:
        return key in error.response.json()['faultstring']
    except (LookupError, TypeError, ValueError):
        return False


def _add(tree: Tree, kind: str, row: dict[str, Any]) -> None:
    tree[kind, row['id']] = row['provisioning_status']


def _add_used(tree: Tree, balancer: dict[str, Any]) -> None:
    _add(tree, 'loadbalancer', balancer)
    for listener in balancer.get('listeners') or ():
        _add(tree, 'listener', listener)
        for pool in listener.get('pools') or ():
            _add(tree, 'pool', pool)
            for member in pool.get('members') or ():
                _add(tree, 'member', member)
            if pool.get('health_monitor'):
                _add(tree, 'healthmonitor', pool['health_monitor'])


@contextlib.contextmanager
def _parsing() -> Iterator[None]:
    """Raise OctaviaUnavailable if an answer lacks something."""
    try:
        yield
    except (AttributeError, LookupError, TypeError) as error:
        raise errors.OctaviaUnavailable(
            f'Octavia\'s API: the answer is malformed: {error!r}'
        ) from error

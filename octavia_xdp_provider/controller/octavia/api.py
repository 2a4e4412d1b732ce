# SPDX-License-Identifier: Apache-2.0
"""Calls of Octavia's API: provisioning statuses, and which there are.

octavia-driver-agent shows neither. Nothing is changed through the API.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import re
from typing import Any

from keystoneauth1 import exceptions
from oslo_config import cfg

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller import keystone_options
from octavia_xdp_provider.controller.octavia import errors
from octavia_xdp_provider.controller.octavia import limited
from octavia_xdp_provider.controller.octavia import options

# Octavia knows the driver by the name of its entry point.
PROVIDER = 'xdp'
# What one request may take, in time-outs: it may need a token before.
_TIMEOUTS = 3
# No more than requests keeps connections open.
_CALLS_MAX = 8
_NO_PROJECT = 32 * '0'
_VERSION = re.compile(r'/v2(\.\d+)?$')

_ADVICE: dict[type[Exception], str] = {
    exceptions.Unauthorized: f' Are user and password in [{options.GROUP}] '
                             'right?',
    exceptions.Forbidden: f' The user of [{options.GROUP}] may not read the '
                          'load balancers of all projects: give him a role '
                          'that Octavia\'s policy "load-balancer:'
                          'global_observer" names.',
}

Query = dict[str, Any]
Tree = dict[spec.Object, str]


@dataclasses.dataclass(frozen=True)
class Listed:
    """A load balancer in Octavia's list.

    ``updated_at``: text, as Octavia has it; None where nothing was changed
    since it was made.
    """

    id: str
    provisioning_status: str
    operating_status: str
    updated_at: str | None


class Api:
    """Octavia's API. Any thread may use it.

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
        """All load balancers of this provider, in pages, oldest first.

        What is made or deleted meanwhile may be among them or not.

        :raises OctaviaUnavailable: not all could be listed.
        """
        # Octavia lists what the user may see without a word of the rest. A
        # list of another project's it refuses to whom may not see all.
        self._get('loadbalancers', {'project_id': _NO_PROJECT, 'limit': 1})
        for row in self._rows('loadbalancers', {
                'provider': PROVIDER, 'fields': [
                    'id', 'provider', 'provisioning_status',
                    'operating_status', 'updated_at']}):
            with _readable():
                # Octavia ignores filters where they are switched off.
                mine = row['provider'] == PROVIDER
                found = Listed(row['id'], row['provisioning_status'],
                               row['operating_status'], row.get('updated_at'))
            if mine:
                yield found

    def provisioning_status(self, load_balancer_id: str) -> str | None:
        """Of the load balancer alone, or None: there is none."""
        answer = self._get(f'loadbalancers/{load_balancer_id}',
                           {'fields': ['provisioning_status']},
                           missing=load_balancer_id)
        if answer is None:
            return None
        with _readable():
            return str(answer['loadbalancer']['provisioning_status'])

    def tree(self, load_balancer_id: str) -> Tree | None:
        """Provisioning status of each object, or None: there is none.

        A load balancer that is DELETED is not there.
        """
        answer = self._get(f'loadbalancers/{load_balancer_id}/status',
                           missing=load_balancer_id)
        if answer is None:
            return None
        tree: Tree = {}
        with _readable():
            _note_used(tree, answer['statuses']['loadbalancer'])
        # Octavia leaves out pools that no listener uses.
        for pool in self._rows('pools', {
                'loadbalancer_id': load_balancer_id, 'fields': [
                    'id', 'provisioning_status', 'healthmonitor_id',
                    'loadbalancers']}):
            with _readable():
                unused = (('pool', pool['id']) not in tree and
                          {'id': load_balancer_id} in pool['loadbalancers'])
            if unused:
                self._note_unused(tree, pool)
        return tree

    def _note_unused(self, tree: Tree, pool: dict[str, Any]) -> None:
        with _readable():
            _note(tree, 'pool', pool)
            # Octavia leaves the field out where there is no monitor.
            pool_id, monitor_id = pool['id'], pool.get('healthmonitor_id')
        for member in self._rows(f'pools/{pool_id}/members', {
                'fields': ['id', 'provisioning_status']}, missing=pool_id):
            with _readable():
                _note(tree, 'member', member)
        if monitor_id:
            answer = self._get(f'healthmonitors/{monitor_id}',
                               missing=monitor_id)
            if answer is not None:
                with _readable():
                    _note(tree, 'healthmonitor', answer['healthmonitor'])

    def _rows(self, collection: str, query: Query,
              missing: str | None = None) -> Iterator[Any]:
        """All rows of a list, each page asked for when it is needed."""
        query = {**query, 'limit': self._page_size}
        name = collection.rpartition('/')[2]
        more = True
        while more:
            answer = self._get(collection, query, missing)
            if answer is None:
                return
            with _readable():
                page = list(answer[name])
                # A page that is full has a next one, which may be empty.
                more = bool(page) and any(
                    link['rel'] == 'next'
                    for link in answer.get(f'{name}_links') or ())
                if more:
                    query['marker'] = page[-1]['id']
            yield from page

    def _get(self, path: str, query: Query | None = None,
             missing: str | None = None) -> Any | None:
        """The answer to a request.

        :param missing: id of what may not be there: None is returned then.
        """
        return self._limited.call(self._request, path, query or {}, missing)

    def _request(self, path: str, query: Query, missing: str | None
                 ) -> Any | None:
        try:
            endpoint = self._adapter.get_endpoint() or ''
            # The catalogue may name the version or leave it out.
            version = '' if _VERSION.search(endpoint.rstrip('/')) else '/v2.0'
            found = self._adapter.get(f'{version}/lbaas/{path}',
                                      params=query).json()
            if not isinstance(found, dict):
                raise ValueError('the answer is no object')
            return found
        except (exceptions.ClientException, ValueError) as error:
            if missing is not None and _says_missing(error, missing):
                return None
            raise errors.OctaviaUnavailable(
                f'Octavia\'s API: {error or type(error).__name__}'
                f'{_ADVICE.get(type(error), "")}') from error


def _says_missing(error: Exception, key: str) -> bool:
    """Whether Octavia itself says that there is no such object.

    Servers before it, and Octavia of an unknown path, answer 404 as well.
    """
    if not isinstance(error, exceptions.NotFound) or error.response is None:
        return False
    try:
        return key in error.response.json()['faultstring']
    except (LookupError, TypeError, ValueError):
        return False


def _note(tree: Tree, kind: str, row: dict[str, Any]) -> None:
    tree[kind, row['id']] = row['provisioning_status']


def _note_used(tree: Tree, balancer: dict[str, Any]) -> None:
    _note(tree, 'loadbalancer', balancer)
    for listener in balancer.get('listeners') or ():
        _note(tree, 'listener', listener)
        for pool in listener.get('pools') or ():
            _note(tree, 'pool', pool)
            for member in pool.get('members') or ():
                _note(tree, 'member', member)
            if pool.get('health_monitor'):
                _note(tree, 'healthmonitor', pool['health_monitor'])


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Answers that lack something are as good as none."""
    try:
        yield
    except (AttributeError, LookupError, TypeError) as error:
        raise errors.OctaviaUnavailable(
            f'Octavia\'s API: the answer cannot be read: {error!r}'
        ) from error

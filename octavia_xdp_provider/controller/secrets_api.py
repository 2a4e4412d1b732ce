# SPDX-License-Identifier: Apache-2.0
"""RPC calls of proxy nodes for secrets.

A proxy node gets those of the load balancers that are placed on it, sealed for
the key that the operator has registered with the node. What a node says of
itself does not count: credentials of the broker alone yield nothing that can
be read.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from typing import Annotated

from oslo_log import log as logging
import oslo_messaging
import pydantic

from octavia_xdp_provider.contracts import messages
from octavia_xdp_provider.contracts import rpc
from octavia_xdp_provider.contracts import sealed
from octavia_xdp_provider.contracts import shape
from octavia_xdp_provider.controller import vault as vaults
from octavia_xdp_provider.controller.store import bundles as stored
from octavia_xdp_provider.controller.store import queries

LOG = logging.getLogger(__name__)

_BUNDLES = shape.arguments(
    host=messages.Host, names=Annotated[list[sealed.Name], pydantic.Field(
        max_length=messages.BUNDLES_PAGE)])
_TICKETS = shape.arguments(
    host=messages.Host, ids=Annotated[list[messages.Id], pydantic.Field(
        max_length=messages.BUNDLES_PAGE)])

_NO_PROXY = 'the node is not registered as a proxy node'
_NO_KEY = ('no public key of this node is registered: run "octavia-xdp-manage '
           'node create --public-key" with the one that "octavia-xdp-proxy-'
           'agent --public-key" prints on the node')
_UNREADABLE = ('controllers cannot decrypt a certificate; their log has the '
               'reason')


class SecretsEndpoint:
    """RPC endpoint of proxy nodes, beside node_api.NodesEndpoint.

    :raises Refused: by each method, if arguments are malformed.
    """

    target = oslo_messaging.Target(namespace=rpc.NODES_NAMESPACE,
                                   version=rpc.NODES_VERSION)

    def __init__(self, store: queries.Store, vault: vaults.Vault) -> None:
        self._store = store
        self._vault = vault

    def bundles(self, context: object, host: str, names: list[str]
                ) -> messages.BundlesAnswer:
        """Return the bundles with these names, as far as the node may have
        them and they fit into a message."""
        _BUNDLES.check({'host': host, 'names': names})
        answer: messages.BundlesAnswer = {'bundles': {}, 'problem': None}
        secrets = self._store.bundles.for_node(host, names)
        answer['problem'] = _problem(secrets)
        size = 0
        for _key, row, text in self._sealed(answer, secrets):
            size += len(text)
            if answer['bundles'] and size > sealed.MESSAGE_MAX:
                break
            answer['bundles'][row.name] = text
        return answer

    def tickets(self, context: object, host: str, ids: list[str]
                ) -> messages.TicketsAnswer:
        """Return the keys of session tickets of load balancers with a
        certificate. Keys that are due to be replaced are replaced first."""
        _TICKETS.check({'host': host, 'ids': ids})
        answer: messages.TicketsAnswer = {'tickets': {}, 'problem': None}
        secrets = self._store.bundles.tickets_for_node(host, ids)
        answer['problem'] = _problem(secrets)
        if answer['problem'] is not None:
            return answer
        if self._renew(answer, host, ids):
            secrets = self._store.bundles.tickets_for_node(host, ids)
        for key, row, text in self._sealed(answer, secrets):
            answer['tickets'][key] = {'name': row.name, 'sealed': text}
        return answer

    def _renew(self, answer: messages.TicketsAnswer, host: str,
               ids: Iterable[str]) -> bool:
        now = self._store.database.now()
        due = self._store.bundles.without_tickets(host, ids, now)
        for key in due:
            def renew(row: stored.Bundle | None, key: str = key
                      ) -> stored.Bundle:
                return self._vault.renew_tickets(key, row, now)
            try:
                self._store.bundles.renew_tickets(key, now, renew)
            except vaults.VaultError as error:
                LOG.error('Keys of session tickets are not replaced: %s',
                          error)
                answer['problem'] = _UNREADABLE
        return bool(due)

    def _sealed(self, answer: messages.BundlesAnswer | messages.TicketsAnswer,
                secrets: stored.ForNode
                ) -> Iterator[tuple[str, stored.Bundle, str]]:
        """Yield (load balancer id, row, sealed bundle)."""
        if secrets.public_key is None:
            return
        for key, row in secrets.bundles:
            try:
                text = self._vault.seal(key, row, secrets.public_key)
            except vaults.VaultError as error:
                LOG.error('A proxy node does not get a certificate: %s', error)
                answer['problem'] = _UNREADABLE
                continue
            yield key, row, text


def _problem(secrets: stored.ForNode) -> str | None:
    if not secrets.is_proxy:
        return _NO_PROXY
    return _NO_KEY if secrets.public_key is None else None

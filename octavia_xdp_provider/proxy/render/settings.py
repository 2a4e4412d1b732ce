# SPDX-License-Identifier: Apache-2.0
"""What a configuration has that is not in the load balancer's document."""

import dataclasses

from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.contracts import proxy_spec

TICKET_KEYS = 'ticket-keys'


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of a load balancer on this node.

    All paths are those that HAProxy sees; ``proxy_launch`` has those of a
    proxy node.

    :param run: directory in which HAProxy creates the socket of its runtime
        API, and finds the one that has the metrics of the load balancer.
    :param certificates: directory of certificates with their keys, CAs, CRLs,
        lists of certificates and the keys of TLS tickets. None is enough
        where no listener and no pool has TLS.
    :param haproxy: major and minor version of HAProxy on this node.
    :param nodes: number of proxy nodes that have the load balancer, which
        divide its connection limits among themselves.
    :param position: of this node among them, from 0.
    :param connections: most connections of clients at a time.
    :param hard_stop_after: seconds that connections of an old process may
        last after a reload.
    """

    run: str
    certificates: str | None
    haproxy: tuple[int, int]
    nodes: int = 1
    position: int = 0
    connections: int = 20000
    threads: int = 1
    hard_stop_after: int = 3600
    max_reloads: int = 3
    tls_cache_entries: int = 1000

    def bundle(self, bundle_hash: str) -> str:
        """Return the path of a bundle's file."""
        return f'{self.certificates}/{bundle_file(bundle_hash)}'

    def ticket_keys(self) -> str:
        return f'{self.certificates}/{TICKET_KEYS}'

    def certificate_list(self, listener_id: str) -> str:
        return f'{self.certificates}/{list_file(listener_id)}'

    def runtime_socket(self) -> str:
        return f'{self.run}/{proxy_launch.RUNTIME_SOCKET}'

    def metrics_socket(self) -> str:
        return f'{self.run}/{proxy_launch.METRICS_SOCKET}'


def bundle_file(bundle_hash: str) -> str:
    """Return the name of a bundle's file in the directory of certificates."""
    return f'{bundle_hash}.pem'


def list_file(listener_id: str) -> str:
    """Return the name of a listener's list of certificates there."""
    return f'{listener_id}.crt-list'


def socket_variable(listener_id: str, vip_index: int) -> str:
    """Return the environment variable with the number of the listening socket
    that HAProxy inherits for a VIP of a listener.

    :param vip_index: position in ``proxy_spec.vips``.
    """
    return f'LISTENER_{listener_id.replace("-", "_")}_{vip_index}'


def health_variable(vip_index: int) -> str:
    """Return the same for the socket at which LB nodes probe HAProxy."""
    return f'LISTENER_HEALTH_{vip_index}'


def socket_variables(document: proxy_spec.Document
                     ) -> dict[str, tuple[str, int]]:
    """Return address and port of each socket that HAProxy inherits, by the
    name of its environment variable."""
    listeners = listeners_in_use(document)
    addresses = list(enumerate(proxy_spec.vips(document)))
    result = {socket_variable(listener_id, index): (
        address, listener['protocol_port'])
        for listener_id, listener in listeners
        for index, address in addresses}
    if listeners:
        result |= {health_variable(index): (address, proxy_spec.HEALTH_PORT)
                   for index, address in addresses}
    return result


def listeners_in_use(document: proxy_spec.Document
                     ) -> list[tuple[str, proxy_spec.Listener]]:
    """Return ids and listeners that take connections, by id."""
    if not document['admin_state_up']:
        return []
    return sorted((key, listener)
                  for key, listener in document['listeners'].items()
                  if listener['admin_state_up'])

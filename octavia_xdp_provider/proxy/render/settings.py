# SPDX-License-Identifier: Apache-2.0
"""What a configuration has that is not in the load balancer's document."""

import dataclasses

from octavia_xdp_provider.contracts import proxy_spec


@dataclasses.dataclass(frozen=True)
class Settings:
    """Of a load balancer on this node.

    :param directory: for the socket of HAProxy's runtime API, and the lists
        of certificates.
    :param secrets: directory of the files that have certificates, keys, CAs,
        CRLs and the keys of TLS tickets.
    :param metrics_socket: path of the socket at which PROMETHEUS listeners
        find the metrics of the load balancer.
    :param haproxy: major and minor version of HAProxy on this node.
    :param nodes: number of proxy nodes that have the load balancer, which
        divide its connection limits among themselves.
    :param position: of this node among them, from 0.
    :param connections: most connections of clients at a time.
    :param hard_stop_after: seconds that connections of an old process may
        last after a reload.
    """

    directory: str
    secrets: str
    metrics_socket: str
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
        return f'{self.secrets}/{bundle_hash}.pem'

    def ticket_keys(self) -> str:
        return f'{self.secrets}/ticket-keys'

    def runtime_socket(self) -> str:
        return f'{self.directory}/runtime.sock'

    def certificate_list(self, listener_id: str) -> str:
        return f'{self.directory}/{listener_id}.crt-list'


def socket_variable(listener_id: str, vip_index: int) -> str:
    """Return the environment variable with the number of the listening socket
    that HAProxy inherits for a VIP of a listener.

    :param vip_index: position in ``proxy_spec.vips``.
    """
    return f'LISTENER_{listener_id.replace("-", "_")}_{vip_index}'


def socket_variables(document: proxy_spec.Document
                     ) -> dict[str, tuple[str, int]]:
    """Return address and port of each socket that HAProxy inherits, by the
    name of its environment variable."""
    return {socket_variable(listener_id, index): (
        address, listener['protocol_port'])
        for listener_id, listener in listeners_in_use(document)
        for index, address in enumerate(proxy_spec.vips(document))}


def listeners_in_use(document: proxy_spec.Document
                     ) -> list[tuple[str, proxy_spec.Listener]]:
    """Return ids and listeners that take connections, by id."""
    if not document['admin_state_up']:
        return []
    return sorted((key, listener)
                  for key, listener in document['listeners'].items()
                  if listener['admin_state_up'])

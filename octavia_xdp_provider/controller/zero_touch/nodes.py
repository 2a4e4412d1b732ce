# SPDX-License-Identifier: Apache-2.0
"""Whether LB nodes know what they would be sent."""

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.scheduler import filters


def problem(store, document: spec.Document) -> str:
    """Why the nodes of a load balancer cannot be sent its members' tunnels.

    Only of what is newer than tunnels are: of those the filter zero_touch has
    seen to that.
    """
    if len(spec.vips(document)) == 1:
        return ''
    placed = {one.host for one in store.placements([document['id']])}
    for node in store.nodes():
        found = filters.version_problem(document, node.state)
        if found and node.host in placed:
            return f'LB node {node.host}: {found}'
    return ''


def know_alternatives(store, key: str) -> bool:
    """Whether all nodes of a load balancer know tunnels at whose end packets
    may name a second member."""
    return _know(store, key, spec.ALTERNATIVES_SINCE)


def know_patience(store, key: str) -> bool:
    """Whether all nodes of a load balancer know members that are moving."""
    return _know(store, key, spec.PATIENCE_SINCE)


def _know(store, key: str, version: int) -> bool:
    placed = {one.host for one in store.placements([key])}
    return all((node.state or {}).get('document_version', 0)
               >= version
               for node in store.nodes() if node.host in placed)

# SPDX-License-Identifier: Apache-2.0
"""Tells which document features the LB nodes of a load balancer support."""

from octavia_xdp_provider.common import spec
from octavia_xdp_provider.controller.scheduler import filters


def problem(store, document: spec.Document) -> str:
    """Return why a load balancer's nodes do not support its tunnels, or ''.

    Only features newer than tunnels are checked: the filter zero_touch places
    load balancers only on nodes that support tunnels.
    """
    if len(spec.vips(document)) == 1:
        return ''
    placed = _hosts(store, document['id'])
    for node in store.nodes():
        reason = filters.version_problem(document, node.state)
        if reason and node.host in placed:
            return f'LB node {node.host}: {reason}'
    return ''


def support_alternatives(store, key: str) -> bool:
    """Return whether all nodes of a load balancer support tunnels in which
    packets name a second member."""
    return _support(store, key, spec.ALTERNATIVES_SINCE)


def support_patience(store, key: str) -> bool:
    """Return whether all nodes of a load balancer support members with
    patience."""
    return _support(store, key, spec.PATIENCE_SINCE)


def _support(store, key: str, version: int) -> bool:
    placed = _hosts(store, key)
    return all((node.state or {}).get('document_version', 0)
               >= version
               for node in store.nodes() if node.host in placed)


def _hosts(store, key: str) -> set[str]:
    return {placement.host for placement in store.placements([key])}

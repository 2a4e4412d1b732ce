# SPDX-License-Identifier: Apache-2.0
"""What is to run for a load balancer, from its document."""

import dataclasses
import hashlib
from typing import Any

from octavia_xdp_provider.api import proxied
from octavia_xdp_provider.contracts import errors
from octavia_xdp_provider.contracts import proxy_launch
from octavia_xdp_provider.contracts import proxy_spec
from octavia_xdp_provider.proxy.agent import parts
from octavia_xdp_provider.proxy.agent import records
from octavia_xdp_provider.proxy.render import frontend
from octavia_xdp_provider.proxy.render import load_balancer
from octavia_xdp_provider.proxy.render import settings as render

# Stands for the name of the directory of certificates, which follows from
# what is in it.
_UNNAMED = '-'


@dataclasses.dataclass(frozen=True)
class Node:
    """What load balancers have on this node unless their flavor says more.

    :param host: its name.
    :param haproxy: major and minor version of HAProxy.
    """

    host: str
    haproxy: tuple[int, int]
    connections: int
    threads: int
    memory_bytes: int
    cpu_weight: int
    stop_after_s: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """The files of a load balancer.

    :ivar certificates: content by name of the file; empty without TLS.
    """

    launch: proxy_launch.Launch
    configuration: bytes
    certificates: dict[str, bytes]


def check(key: str, document: Any) -> proxy_spec.Document:
    """Return a document that a controller has sent.

    :raises Refused: it is malformed, or cannot be served.
    """
    proxied.check(document)
    if document['id'] != key:
        raise errors.Refused('id', f'the document of {key} has the id '
                             f'{document["id"]}', 'send it under its own')
    checked: proxy_spec.Document = document
    return checked


def make(document: proxy_spec.Document, record: records.Record, node: Node,
         secrets: parts.Secrets) -> Plan | None:
    """Return what is to run; None if the load balancer has no listener that
    takes connections.

    :raises Missing: a secret is not here yet.
    """
    if not render.listeners_in_use(document):
        return None
    node = _chosen(node, document.get('flavor', {}))
    hashes = bundles(document)
    contents: dict[str, bytes] = {}
    name = None
    settings = _settings(document, node, _UNNAMED if hashes else None)
    rendered = load_balancer.render(document, settings, record.down)
    if hashes:
        contents.update(secrets.files(document['id'], hashes))
        contents.update((file, text.encode())
                        for file, text in rendered.files.items())
        name = _name(contents)
        settings = _settings(document, node, name)
        rendered = load_balancer.render(document, settings, record.down)
    configuration = rendered.text.encode()
    launch: proxy_launch.Launch = {
        'number': record.number,
        'sockets': [
            {'name': variable, 'address': address, 'port': port}
            for variable, (address, port)
            in sorted(render.socket_variables(document).items())],
        'members': _members(document),
        # A change of a listener's limit is a reload.
        'connections': node.connections + frontend.HEALTH_CONNECTIONS,
        'threads': node.threads, 'memory_bytes': node.memory_bytes,
        'cpu_weight': node.cpu_weight, 'stop_after_s': node.stop_after_s,
        'configuration_hash': hashlib.sha256(configuration).hexdigest(),
        'certificates': name}
    if tokens := _tokens(document):
        launch['tokens'] = tokens
    return Plan(launch, configuration, contents)


def _chosen(node: Node, flavor: proxy_spec.Flavor) -> Node:
    """Return a node with a flavor's values in place of its own."""
    memory = flavor.get('proxy_memory')
    return dataclasses.replace(
        node, connections=flavor.get('proxy_connections', node.connections),
        threads=flavor.get('proxy_threads', node.threads),
        memory_bytes=memory << 20 if memory else node.memory_bytes,
        stop_after_s=flavor.get('proxy_stop_after', node.stop_after_s))


def _settings(document: proxy_spec.Document, node: Node, name: str | None
              ) -> render.Settings:
    """:param name: of the directory with certificates, if there is one."""
    hosts = sorted({*document.get('nodes', ()), node.host})
    return render.Settings(
        run=proxy_launch.RUN,
        certificates=name and f'{proxy_launch.CERTIFICATES}/{name}',
        haproxy=node.haproxy, nodes=len(hosts),
        position=hosts.index(node.host), connections=node.connections,
        threads=node.threads, hard_stop_after=node.stop_after_s)


def _name(contents: dict[str, bytes]) -> str:
    """Return the name of a directory with these files."""
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        for part in (name.encode(), content):
            digest.update(len(part).to_bytes(8, 'big'))
            digest.update(part)
    return digest.hexdigest()


def bundles(document: proxy_spec.Document) -> frozenset[str]:
    """Return the hashes of all bundles that the configuration needs."""
    hashes: set[str | None] = set()
    for _key, listener in render.listeners_in_use(document):
        hashes.update((
            listener['default_tls_bundle'], *listener['sni_bundles'],
            listener['client_ca_bundle'], listener['client_crl_bundle']))
    for pool in _pools_in_use(document):
        if pool['tls_enabled']:
            hashes.update((pool['tls_bundle'], pool['ca_bundle'],
                           pool['crl_bundle']))
    return frozenset(filter(None, hashes))


def _pools_in_use(document: proxy_spec.Document) -> list[proxy_spec.Pool]:
    return list({
        key: pool for _key, listener in render.listeners_in_use(document)
        for key, pool in proxy_spec.pools_of(document, listener)
        if pool['admin_state_up']}.values())


def _members(document: proxy_spec.Document) -> list[proxy_launch.Endpoint]:
    """Return what HAProxy may connect to: the members of its pools."""
    return [{'address': address, 'port': port} for address, port in sorted({
        (proxy_spec.connected_address(member), member['protocol_port'])
        for pool in _pools_in_use(document)
        for member in pool['members'].values()})]


def _tokens(document: proxy_spec.Document) -> list[proxy_launch.Token]:
    """Return the addresses that stand for members behind hypervisors."""
    return sorted((
        {'address': member['token'], 'member': member['address'],
         'tunnel': member['tunnel']}
        for pool in _pools_in_use(document)
        for member in pool['members'].values() if 'token' in member),
        key=lambda token: token['address'])

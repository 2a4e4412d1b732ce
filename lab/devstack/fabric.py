# SPDX-License-Identifier: Apache-2.0
"""Namespaces of a DevStack host: the lab's fabric, and links to the host.

The host of Octavia has the complete fabric. Further hosts have LB nodes only,
if any: each is cabled to the router through a VXLAN tunnel, and so is the host
itself if it is a hypervisor. All LB nodes reach the broker through their host.
"""

import contextlib

from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab.devstack import hypervisor
from lab.devstack import site as sites
from lab.devstack import tunnels
from lab.fabric import client
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from lab.fabric import topology

BRIDGE_PREFIX = 'oxp'
TABLE = 'octavia_xdp'


def up(site):
    """Create namespaces and links, after removing those of an earlier run."""
    _remove_links(site)
    deployment.up_fabric(site.lab, lambda: _make(site))


def down(site):
    """Remove namespaces, links and their processes."""
    hypervisor.disconnect(site)
    deployment.down(site.lab)
    _remove_links(site)


def bridge(site):
    """Return the name of the host's bridge to its LB nodes."""
    return f'{BRIDGE_PREFIX}-{site.lab.id}'


def _make(site):
    lab = site.lab
    router.create(lab)
    if site.hypervisor:
        hypervisor.make_bpf_directory(site)
    if site.role == sites.ALL:
        client.create(lab)
        for member in topology.MEMBERS:
            members.create(lab, member)
    for node in site.nodes:
        nodes.create(lab, node)
    if site.role == sites.ALL:
        for node, host in site.remote_nodes.items():
            _tunnel(site, node, node, host)
            _address_of_router(lab, node)
        if site.hypervisors:
            hypervisor.make_switch(site)
        router.start(lab, {node: nodes.address(node) for node in (
            *site.nodes, *site.remote_nodes)})
    else:
        for node in site.nodes:
            _extend(site, node)
        if site.hypervisor:
            hypervisor.extend(site)
    _connect_host(site)


def _extend(site, node):
    """Extend a node's cable to the router of another host."""
    lab, tunnel = site.lab, f'vx-{node}'
    with namespaces.link(lab, links.ROUTER) as netlink:
        netlink.flush_addr(index=namespaces.index(netlink, node))
    _tunnel(site, node, tunnel, site.value('OCTAVIA_XDP_ROUTER_HOST'))
    namespaces.bridge(lab, links.ROUTER, f'br-{node}', (node, tunnel))
    links.set_mtu(lab, links.ROUTER, f'br-{node}', links.FABRIC_MTU)


def _tunnel(site, node, name, remote):
    tunnels.lay(site, name, tunnels.of_node(node), remote, links.FABRIC_MTU,
                links.ROUTER)
    namespaces.up(site.lab, links.ROUTER, name)


def _address_of_router(lab, node):
    for version, length in (4, 30), (6, 126):
        _own, router_address = paths.uplink_addresses(
            paths.number(node), version)
        namespaces.address(lab, links.ROUTER, node,
                           f'{router_address}/{length}')


def _connect_host(site):
    lab, name, prefix = site.lab, bridge(site), site.value(sites.MANAGEMENT)
    host = site.management_address()
    tunnels.ip(lab, 'link', 'add', name, 'type', 'bridge')
    tunnels.ip(lab, 'link', 'set', name, 'up')
    tunnels.ip(lab, 'address', 'add', f'{host}/24', 'dev', name)
    for node in site.nodes:
        port = _port(site, node)
        tunnels.ip(lab, 'link', 'add', port, 'type', 'veth', 'peer', 'name',
            namespaces.MANAGEMENT_INTERFACE, 'netns', lab.namespace(node))
        tunnels.ip(lab, 'link', 'set', port, 'master', name, 'up')
        namespaces.up(lab, node, namespaces.MANAGEMENT_INTERFACE)
        address = site.management_address(node)
        namespaces.address(lab, node, namespaces.MANAGEMENT_INTERFACE,
                           f'{address}/24')
        namespaces.route(
            lab, node, f'{site.value("OCTAVIA_XDP_SERVICE_ADDRESS")}/32',
            via=host)
        lab.state.put('addresses', node, {
            **lab.state.get('addresses', node, {}), 'management': address})
    if site.role == sites.NODE and site.nodes:
        _hide_behind_host(lab, prefix)


def _port(site, node):
    """Return the host's end of a node's management link."""
    return f'{bridge(site)}-{paths.number(node)}'


def _hide_behind_host(lab, prefix):
    # The broker's host has no route to LB nodes.
    processes.run(lab, None, ['sysctl', '-qw', 'net.ipv4.ip_forward=1'])
    processes.run(lab, None, ['nft', '-f', '-'], input=(
        f'table ip {TABLE} {{\n'
        'chain nat {\n'
        'type nat hook postrouting priority srcnat\n'
        f'ip saddr {prefix}.0/24 ip daddr != {prefix}.0/24 masquerade\n'
        '}\n'
        '}\n'))


def _remove_links(site):
    # Namespaces, and their ends of these links, may exist a moment longer
    # than their names.
    for name in (bridge(site), hypervisor.interface(site),
                 *(_port(site, node) for node in site.nodes)):
        with contextlib.suppress(paths.LabError):
            tunnels.ip(site.lab, 'link', 'delete', name)
    if site.role == sites.NODE:
        with contextlib.suppress(paths.LabError):
            processes.run(site.lab, None,
                          ['nft', 'delete', 'table', 'ip', TABLE])

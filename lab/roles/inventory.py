# SPDX-License-Identifier: Apache-2.0
"""The inventory of the lab's hosts, like that in deploy/ansible/inventory."""

import json

from lab import paths
from lab.control import certificates
from lab.control import keystone
from lab.control import mariadb
from lab.control import octavia
from lab.control import rabbitmq
from lab.fabric import links
from lab.fabric import nodes
from lab.fabric import router
from lab.roles import hosts


def write(lab, vips=()):
    """Write the inventory as JSON, which is YAML as well.

    :param vips: VIPs that the member serves.
    """
    hosts.INVENTORY.write_text(json.dumps(
        {'all': {'vars': _everywhere(lab)}, **_groups(lab, vips)}, indent=2))


def _everywhere(lab):
    return {
        'ansible_user': 'root',
        'ansible_python_interpreter': '/usr/bin/python3',
        'octavia_xdp_repository':
            f'deb [trusted=yes] {hosts.REPOSITORY_URL} ./',
        'octavia_xdp_broker_ca': str(certificates.authority(lab)),
        'octavia_xdp_vip_networks': [str(paths.VIP_NETWORK)],
        'octavia_xdp_member_networks': [str(paths.MEMBER_NETWORK)],
        'octavia_xdp_node_networks': [str(paths.UPLINK_NETWORK)],
        'octavia_xdp_node_as': router.NODE_ASN,
        'octavia_xdp_router_as': router.ASN,
    }


def _groups(lab, vips):
    return {
        'control_hosts': {'hosts': {
            paths.CONTROL: _host(paths.CONTROL)}, 'vars': {
            'control_host_unit': True,
            'octavia_xdp_transport_url': rabbitmq.controller_url(lab),
            'octavia_xdp_nodes_transport_url': rabbitmq.nodes_url(lab),
            'octavia_xdp_database': mariadb.url(lab, mariadb.CONTROLLERS),
            'octavia_xdp_keystone': {
                **keystone.user_options(lab, keystone.OBSERVER),
                'valid_interfaces': 'internal'},
            'control_host_options': {'controller': {
                f'{kind}_socket': str(lab.run_directory / f'{kind}.sock')
                for kind in octavia.SOCKETS}},
        }},
        'lb_nodes': {'hosts': {node: _node(lab, node)
                               for node in hosts.NODES}, 'vars': {
            'octavia_xdp_uplinks': [links.UPLINK],
            'lb_node_options': {
                'datapath': {'services_max': nodes.SERVICES_MAX}},
            # Do not change sysctls of the machine.
            'lb_node_sysctl': False,
        }},
        'hypervisors': {'hosts': {hosts.HYPERVISOR: {
            **_host(hosts.HYPERVISOR),
            'octavia_xdp_host': hosts.HYPERVISOR,
            'octavia_xdp_transport_url':
                rabbitmq.hypervisor_url(lab, hosts.HYPERVISOR)}}, 'vars': {
            'octavia_xdp_underlay_interfaces': [links.UPLINK],
            'hypervisor_options': {
                'host_agent': {'ports_max': 16, 'flows_max': 4096}},
        }},
        'routers': {'hosts': {links.ROUTER: {
            **_host(links.ROUTER),
            'octavia_xdp_router_id': paths.CLIENT_GATEWAY,
            'octavia_xdp_lb_nodes': [nodes.address(node)
                                     for node in hosts.NODES]}}},
        'members': {'hosts': {hosts.MEMBER: {
            **_host(hosts.MEMBER),
            'octavia_xdp_interface': links.UPLINK,
            'octavia_xdp_vips': list(vips)}}},
    }


def _host(name):
    return {'ansible_host': hosts.HOSTS[name]}


def _node(lab, node):
    own, next_hop = paths.uplink_addresses(paths.number(node))
    return {
        **_host(node),
        'octavia_xdp_host': node,
        'octavia_xdp_address': own,
        'octavia_xdp_routers': [next_hop],
        'octavia_xdp_transport_url': rabbitmq.node_url(lab, node),
    }

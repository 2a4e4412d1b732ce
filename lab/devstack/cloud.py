# SPDX-License-Identifier: Apache-2.0
"""Objects of the provider in Keystone, Neutron and Octavia of a DevStack.

Each function can run again: it keeps or updates objects that exist.
"""

import json

import openstack as sdk

from lab import paths
from lab.control import octavia
from lab.devstack import hypervisor
from octavia_xdp_provider.controller import broker

USER = broker.CONTROL_VHOST
# name → (CIDR of IPv4, of IPv6, gateways or None)
NETWORKS = {
    'xdp-vips': ((paths.VIP_NETWORK, None), (paths.VIP_NETWORK_V6, None)),
    'xdp-members': ((paths.MEMBER_NETWORK, paths.MEMBER_GATEWAY),
                    (paths.MEMBER_NETWORK_V6, paths.MEMBER_GATEWAY_V6)),
}
# name → metadata
FLAVORS = {
    'xdp': {},
    'xdp-gue': {'encapsulation': 'gue'},
    'xdp-geneve': {'encapsulation': 'geneve'},
}


def connect():
    """Connect by the environment (OS_CLOUD, or OS_AUTH_URL and so on)."""
    return sdk.connect(api_timeout=120)


def make_user(site):
    """Create the controller's user for Octavia and Neutron."""
    identity = connect().identity
    password = site.password(USER)
    project = identity.find_project(site.value('OCTAVIA_XDP_PROJECT'),
                                    ignore_missing=False)
    user = identity.find_user(USER)
    if user:
        identity.update_user(user, password=password)
    else:
        user = identity.create_user(name=USER, password=password,
                                    domain_id='default',
                                    default_project_id=project.id)
    for name in site.value('OCTAVIA_XDP_USER_ROLES').split():
        role = identity.find_role(name) or identity.create_role(name=name)
        identity.assign_project_role_to_user(project, user, role)


def make_networks(_site):
    """Create the networks of VIPs and of the fabric's members."""
    neutron = connect().network
    for name, subnets in NETWORKS.items():
        network = (neutron.find_network(name)
                   or neutron.create_network(name=name, is_shared=True))
        for version, (cidr, gateway) in zip((4, 6), subnets, strict=True):
            subnet = f'{name}-v{version}'
            if not neutron.find_subnet(subnet):
                neutron.create_subnet(
                    name=subnet, network_id=network.id, ip_version=version,
                    cidr=str(cidr), gateway_ip=gateway,
                    is_dhcp_enabled=False)


def make_flavors(site):
    """Create flavors and their profiles; Octavia must have the provider."""
    sdk = connect().load_balancer
    flavors = {**FLAVORS, **dict(
        [hypervisor.FLAVOR] if site.hypervisors else [])}
    for name, metadata in flavors.items():
        profile = sdk.find_flavor_profile(name)
        if not profile:
            profile = sdk.create_flavor_profile(
                name=name, provider_name=octavia.XDP,
                flavor_data=json.dumps(metadata))
        if not sdk.find_flavor(name):
            sdk.create_flavor(name=name, is_enabled=True,
                              flavor_profile_id=profile.id)


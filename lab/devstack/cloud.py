# SPDX-License-Identifier: Apache-2.0
"""What the provider needs in Keystone, Neutron and Octavia of a DevStack.

Whatever exists already is brought to what it should be.
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
    """As DevStack's environment says (OS_CLOUD, or OS_AUTH_URL and so on)."""
    return sdk.connect(api_timeout=120)


def make_user(site):
    """Make the user as whom the controller asks Octavia and Neutron."""
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
    """Make the networks of VIPs and of the fabric's members."""
    network = connect().network
    for name, subnets in NETWORKS.items():
        found = (network.find_network(name)
                 or network.create_network(name=name, is_shared=True))
        for version, (cidr, gateway) in zip((4, 6), subnets, strict=True):
            subnet = f'{name}-v{version}'
            if not network.find_subnet(subnet):
                network.create_subnet(
                    name=subnet, network_id=found.id, ip_version=version,
                    cidr=str(cidr), gateway_ip=gateway,
                    is_dhcp_enabled=False)


def make_flavors(site):
    """Make flavors and their profiles; Octavia has to know the provider."""
    balancer = connect().load_balancer
    flavors = {**FLAVORS, **dict(
        [hypervisor.FLAVOR] if site.hypervisors else [])}
    for name, metadata in flavors.items():
        profile = balancer.find_flavor_profile(name)
        if not profile:
            profile = balancer.create_flavor_profile(
                name=name, provider_name=octavia.XDP,
                flavor_data=json.dumps(metadata))
        if not balancer.find_flavor(name):
            balancer.create_flavor(name=name, is_enabled=True,
                                   flavor_profile_id=profile.id)


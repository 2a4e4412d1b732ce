# SPDX-License-Identifier: Apache-2.0
"""Hypervisors next to the LB nodes, and the operator's networks in Neutron.

    client ── router ══ lb1, lb2
                 ├───── member1 … member4
                 └═════ hv1, hv2: uplink, tunnels, provider network
"""

from lab import cloud
from lab import namespaces
from lab import parallel
from lab import paths
from lab import processes
from lab import progress
from lab.control import keystone
from lab.ovn import central
from lab.ovn import host_agents
from lab.ovn import hypervisors

EXTERNAL = 'external'
# Range of addresses for tenants' routers in it.
_POOL = (str(paths.PROVIDER_NETWORK[100]), str(paths.PROVIDER_NETWORK[200]))


def up(lab):
    """Start the hypervisors, and create the operator's networks in OVN."""
    with progress.step('making the hypervisors'):
        hypervisors.make_switches(lab)
        for name in hypervisors.NAMES:
            hypervisors.create(lab, name)
    with progress.step('starting OVN on the hypervisors'):
        parallel.together(*(
            lambda name=name: hypervisors.start(lab, name)
            for name in hypervisors.NAMES))
        with namespaces.inside(lab, paths.CONTROL):
            admin = cloud.connect(lab, cloud.ADMIN).network
            # Neutron cannot bind ports to hosts before it lists them.
            processes.wait_for(
                'hypervisors in Neutron', lambda: _are_alive(admin), 60)
    with progress.step('starting the agents of the hypervisors'):
        for name in hypervisors.NAMES:
            host_agents.configure(lab, name)
            host_agents.start(lab, name)
    with (progress.step('making the operator\'s networks in OVN'),
          namespaces.inside(lab, paths.CONTROL)):
        _make_networks(admin)
        _let_read(cloud.connect(lab, cloud.ADMIN).identity)


def _are_alive(admin):
    hosts = {agent.host for agent in admin.agents() if agent.is_alive}
    return hosts >= set(hypervisors.NAMES)


def _let_read(identity):
    """Let the provider's user read ports of all projects, like services."""
    identity.assign_project_role_to_user(
        identity.find_project('service'),
        identity.find_user(keystone.OBSERVER), identity.find_role('service'))


def _make_networks(admin):
    """Create the networks of all labs, and the external one of routers.

    Neutron's databases already have the former, but OVN lacks them: create
    them again.
    """
    for name, (cidr, gateway) in cloud.NETWORKS.items():
        admin.delete_network(admin.find_network(name))
        network = admin.create_network(
            name=name, is_shared=True, provider_network_type='local')
        cidr_v6, gateway_v6 = cloud.NETWORKS_V6[name]
        for version, subnet_cidr, subnet_gateway in (
                (4, cidr, gateway), (6, cidr_v6, gateway_v6)):
            admin.create_subnet(
                name=f'{name}-v{version}', network_id=network.id,
                ip_version=version, cidr=subnet_cidr,
                gateway_ip=subnet_gateway, is_dhcp_enabled=False)
    network = admin.create_network(
        name=EXTERNAL, is_router_external=True, provider_network_type='flat',
        provider_physical_network=central.PHYSICAL_NETWORK)
    admin.create_subnet(
        name=f'{EXTERNAL}-v4', network_id=network.id, ip_version=4,
        cidr=str(paths.PROVIDER_NETWORK),
        gateway_ip=paths.PROVIDER_GATEWAY, is_dhcp_enabled=False,
        allocation_pools=[{'start': _POOL[0], 'end': _POOL[1]}])

# SPDX-License-Identifier: Apache-2.0
"""Tenants with their own network, a router and ports for VMs.

Use this within lab.namespaces.inside(lab, lab.paths.CONTROL).
"""

import dataclasses
import functools
import ipaddress
import uuid

from lab import cloud
from lab.ovn import fabric

# Several tenants may use the same subnets.
SUBNET, SUBNET_V6 = '10.0.0.0/24', 'fd00:10::/64'


@dataclasses.dataclass(frozen=True)
class Tenant:
    """A project with a user of the same name, and its network.

    :param security_group_id: the default group, which all VMs have.
    """

    name: str
    project_id: str
    network_id: str
    subnet_id: str
    subnet_v6_id: str
    router_id: str
    security_group_id: str


class Tenants:
    """Operations of the cloud's administrator for tenants."""

    def __init__(self, lab):
        self._lab = lab
        self._admin = cloud.connect(lab, cloud.ADMIN)

    @functools.cached_property
    def network(self):
        """The administrator's connection to Neutron."""
        return self._admin.network

    def create(self, name, cidr=SUBNET, cidr_v6=SUBNET_V6):
        """Create a tenant with a network and a router with a gateway."""
        project, _user = cloud.create_tenant(
            self._lab, self._admin.identity, name)
        neutron = cloud.connect(self._lab, name).network
        network = neutron.create_network(name=f'{name}-network')
        subnet = neutron.create_subnet(
            name=f'{name}-subnet', network_id=network.id, ip_version=4,
            cidr=cidr)
        # VMs are configured without DHCP, as by a configuration drive.
        subnet_v6 = neutron.create_subnet(
            name=f'{name}-subnet-v6', network_id=network.id, ip_version=6,
            cidr=cidr_v6, is_dhcp_enabled=False)
        router = neutron.create_router(
            name=f'{name}-router', external_gateway_info={
                'network_id': self._external})
        for subnet_id in subnet.id, subnet_v6.id:
            neutron.add_interface_to_router(router, subnet_id=subnet_id)
        group, = neutron.security_groups(project_id=project.id,
                                         name='default')
        return Tenant(name, project.id, network.id, subnet.id, subnet_v6.id,
                      router.id, group.id)

    def delete(self, tenant):
        """Delete a tenant and everything in its network."""
        neutron = self.network
        for subnet in tenant.subnet_id, tenant.subnet_v6_id:
            neutron.remove_interface_from_router(tenant.router_id,
                                                 subnet_id=subnet)
        neutron.delete_router(tenant.router_id)
        for port in neutron.ports(network_id=tenant.network_id):
            # DHCP ports are deleted with the network.
            if not port.device_owner.startswith('network:'):
                neutron.delete_port(port)
        neutron.delete_network(tenant.network_id)
        for group in neutron.security_groups(project_id=tenant.project_id):
            neutron.delete_security_group(group)
        identity = self._admin.identity
        identity.delete_user(identity.find_user(tenant.name))
        identity.delete_project(tenant.project_id)

    def allow(self, tenant, protocol, port=None, remote='0.0.0.0/0'):
        """Add a rule for traffic to VMs to the default group."""
        return self.network.create_security_group_rule(
            security_group_id=tenant.security_group_id, direction='ingress',
            ether_type='IPv6' if ':' in remote else 'IPv4',
            protocol=protocol, port_range_min=port, port_range_max=port,
            remote_ip_prefix=remote)

    def create_port(self, tenant, hypervisor, address, address_v6=None):
        """Create a port for a VM, bound like Nova does.

        :param hypervisor: None: the port stays unbound.
        """
        fixed = [{'subnet_id': tenant.subnet_id, 'ip_address': address}]
        if address_v6:
            fixed.append({'subnet_id': tenant.subnet_v6_id,
                          'ip_address': address_v6})
        return self.network.create_port(
            network_id=tenant.network_id, project_id=tenant.project_id,
            fixed_ips=fixed, device_owner='compute:nova',
            device_id=str(uuid.uuid4()),
            security_groups=[tenant.security_group_id],
            **({'binding_host_id': hypervisor} if hypervisor else {}))

    def bind(self, port, hypervisor):
        """Bind a port to a hypervisor, which also ends a migration."""
        return self.network.update_port(
            port, binding_host_id=hypervisor, binding_profile={})

    def announce_migration(self, port, hypervisor):
        """Set the target of a VM's migration, as Nova does before it."""
        return self.network.update_port(
            port, binding_profile={'migrating_to': hypervisor})

    def is_active(self, port):
        """Return whether OVN has reported to Neutron that the port is up."""
        return self.network.get_port(port).status == 'ACTIVE'

    def as_plugged(self, port):
        """Return the port as a dictionary for vms.create()."""
        addresses, gateways = [], []
        for fixed in port.fixed_ips:
            subnet = self.network.get_subnet(fixed['subnet_id'])
            prefix = ipaddress.ip_network(subnet.cidr).prefixlen
            addresses.append(f'{fixed["ip_address"]}/{prefix}')
            gateways += [subnet.gateway_ip] if subnet.gateway_ip else []
        return {'id': port.id, 'mac': port.mac_address,
                'mtu': self.network.get_network(port.network_id).mtu,
                'addresses': addresses, 'gateways': gateways}

    @functools.cached_property
    def _external(self):
        return self.network.find_network(fabric.EXTERNAL).id

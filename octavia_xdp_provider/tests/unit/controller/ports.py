# SPDX-License-Identifier: Apache-2.0
"""Ports in the form of Neutron's API, and a stand-in for the API."""

from octavia_xdp_provider.controller.neutron_ports import findings

ADDRESS, GATEWAY = '10.0.0.11', '10.0.0.1'


def port(key='port', project='red', **more):
    return {
        'id': key, 'project_id': project, 'network_id': f'net-{project}',
        'fixed_ips': [{'subnet_id': f'sub-{project}',
                       'ip_address': ADDRESS}],
        'mac_address': 'FA:16:3E:00:00:11', 'device_owner': 'compute:nova',
        'status': 'ACTIVE', 'port_security_enabled': True,
        'security_groups': [f'group-{project}'], 'revision_number': 7,
        'binding:host_id': 'hv1', 'binding:vif_type': 'ovs',
        'binding:vnic_type': 'normal', 'binding:profile': {}, **more}


def router_port(project='red'):
    return port(f'router-{project}', project, fixed_ips=[
        {'subnet_id': f'sub-{project}', 'ip_address': GATEWAY}],
        device_owner='network:router_interface', device_id=f'of-{project}',
        mac_address='fa:16:3e:00:00:01', security_groups=[])


def rule(**more):
    return {'direction': 'ingress', 'ethertype': 'IPv4', 'protocol': 'tcp',
            'port_range_min': 8080, 'port_range_max': 8080,
            'remote_ip_prefix': None, 'remote_group_id': None, **more}


class Neutron:
    """Lists and filters like Neutron's API, and counts calls."""

    def __init__(self, ports, rules=(), **hidden):
        self.calls = 0
        self._ports = ports
        self._rules = list(rules)
        self._hidden = hidden
        self.gateway = GATEWAY
        self.gateways_of = {}  # of other subnets
        self.shared_with = {}  # network → projects
        self.disabled = set()  # networks and routers

    def ports(self, addresses, subnet_id=None, project_id=None):
        self.calls += 1
        wanted = set(addresses)
        return [row for row in self._ports
                if project_id in (None, row['project_id'])
                and any(fixed['ip_address'] in wanted
                        and subnet_id in (None, fixed['subnet_id'])
                        for fixed in row['fixed_ips'])]

    def gateways(self, subnets):
        self.calls += 1
        gateways = {row['gateway_ip'] for row in subnets}
        return [row for row in self._ports
                if row['fixed_ips'][0]['ip_address'] in gateways]

    def networks(self, ids):
        return [{**row, 'project_id': row['id'].removeprefix('net-'),
                 'admin_state_up': row['id'] not in self.disabled}
                for row in self._rows('networks', ids, mtu=1442)]

    def routers(self, ids):
        return [{**row, 'admin_state_up': row['id'] not in self.disabled}
                for row in self._rows('routers', ids)]

    def shares(self, network_ids):
        self.calls += bool(network_ids)
        return [{'object_id': key, 'target_tenant': project}
                for key in network_ids
                for project in self.shared_with.get(key, ())]

    def subnets(self, ids):
        return [{**row, 'network_id': self._network_of(row['id']),
                 'gateway_ip': self.gateways_of.get(row['id'], self.gateway)}
                for row in self._rows('subnets', ids)]

    def _network_of(self, subnet_id):
        """Return the network of a port in the subnet, or one of its name."""
        return next((
            row['network_id'] for row in self._ports
            for fixed in row['fixed_ips'] if fixed['subnet_id'] == subnet_id),
            f'net-{subnet_id.removeprefix("sub-")}')

    def security_groups(self, ids):
        return self._rows('groups', ids, security_group_rules=self._rules)

    def _rows(self, kind, ids, **fields):
        self.calls += 1
        return [{'id': key, **fields} for key in set(ids)
                if key not in self._hidden.get(kind, ())]


def red(**more):
    return findings.Wanted('red', **{
        'address': ADDRESS, 'subnet_id': 'sub-red', **more})

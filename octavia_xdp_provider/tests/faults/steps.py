# SPDX-License-Identifier: Apache-2.0
"""What tenants do while something fails, and whether it came about."""

import json
import re
import uuid

from keystoneauth1 import exceptions as transport_errors
from openstack import exceptions

from lab import cloud
from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import topology
from octavia_xdp_provider.node import inspection

# Seconds within which a call is accepted, and what it asks for is done, once
# nothing fails any more: [controller] status_timeout twice, and some.
LIMIT_S = 200
_ERRORS = (exceptions.SDKException, transport_errors.ClientException,
           OSError)
_REQUESTS = 8


class Wrong(Exception):
    """Something is not as it should be."""


class Web:
    """A load balancer of a tenant, with members that are probed."""

    def __init__(self, name, hosts, flavor=None):
        self.name = f'{name}-{uuid.uuid4().hex[:8]}'
        self.hosts = list(hosts)
        self.flavor = flavor
        self.vip = None


class Tenant:
    """Calls the API until it takes what is asked for. One thread each.

    :ivar fault_s: seconds that a fault lasts, for which nobody is to blame.
    """

    def __init__(self, lab):
        self.lab = lab
        self.fault_s = 0
        with namespaces.inside(lab, paths.CONTROL):
            connection = cloud.connect(lab)
            self.sdk = connection.load_balancer
            self.subnet = connection.network.find_subnet('vips-v4').id
            self.admin = cloud.connect(lab, cloud.ADMIN).load_balancer

    def _until(self, what, function):
        """Call until it returns something true, whatever fails before."""
        last = 'no answer'

        def attempt():
            nonlocal last
            try:
                with namespaces.inside(self.lab, paths.CONTROL):
                    return function()
            except exceptions.ConflictException:
                last = 'it is PENDING'
            except _ERRORS as error:
                last = str(error)
            return None
        try:
            return processes.wait_for(lambda: f'{what} ({last[:200]})',
                                      attempt, LIMIT_S + self.fault_s, 0.3)
        except paths.LabError as error:
            raise Wrong(str(error)) from None

    def find(self, web):
        """The load balancer as Octavia shows it, or None."""
        return next(iter(self.sdk.load_balancers(name=web.name)), None)

    def create(self, web):
        def call():
            balancer = self.find(web)
            return balancer or self.sdk.create_load_balancer(
                name=web.name, provider='xdp', vip_subnet_id=self.subnet,
                **({'flavor_id': web.flavor} if web.flavor else {}),
                listeners=[{
                    'name': web.name, 'protocol': 'TCP', 'protocol_port': 80,
                    'default_pool': {
                        'name': web.name, 'protocol': 'TCP',
                        'lb_algorithm': 'SOURCE_IP_PORT',
                        'healthmonitor': {
                            'name': web.name, 'type': 'HTTP', 'delay': 2,
                            'timeout': 1, 'max_retries': 2,
                            'max_retries_down': 2},
                        'members': [{
                            'name': host, 'protocol_port': 80,
                            'address': members.address(host)}
                            for host in web.hosts]}}])
        web.vip = self._until(f'creation of {web.name}', call).vip_address

    def delete(self, web):
        def call():
            balancer = self.find(web)
            if balancer is None:
                return True
            self.sdk.delete_load_balancer(balancer.id, cascade=True)
            return False
        self._until(f'deletion of {web.name}', call)

    def toggle_member(self, web, host):
        """A member comes, or goes if it is there."""
        added = host not in web.hosts

        def call():
            pool = next(iter(self.sdk.pools(name=web.name)))
            member = next((listed for listed in self.sdk.members(pool)
                           if listed.name == host), None)
            if added and member is None:
                self.sdk.create_member(
                    pool, name=host, address=members.address(host),
                    protocol_port=80)
            elif not added and member is not None:
                if member.provisioning_status == 'ACTIVE':
                    self.sdk.delete_member(member, pool)
                return False
            return True
        self._until(f'change of {web.name}', call)
        web.hosts = ([*web.hosts, host] if added else
                     [name for name in web.hosts if name != host])

    def fail_over(self, web):
        def call():
            self.admin.failover_load_balancer(self.find(web).id)
            return True
        self._until(f'failover of {web.name}', call)

    # Afterwards

    def check(self, web, hosts=topology.NODES):
        """Whether all of a load balancer is as it should be.

        :param hosts: the nodes that carry it; None: one of them.
        :raises Wrong: it is not, after a while.
        """
        self._until(f'{web.name}: ACTIVE and ONLINE', lambda: (
            self._statuses(web) == {'ACTIVE', 'ONLINE'}))
        on = self._until(f'{web.name}: {len(web.hosts)} members on the nodes',
                         lambda: self._carried(web, hosts))
        answers = client.requests(self.lab, f'http://{web.vip}/',
                                  number=_REQUESTS)
        if answers.failures:
            raise Wrong(f'{web.name} on {on}: {answers.failures[0]}')
        strangers = answers.count.keys() - set(web.hosts)
        if strangers:
            raise Wrong(f'{web.name}: {strangers} answered')

    def _statuses(self, web):
        """All statuses of a load balancer and what is below it."""
        balancer = self.find(web)
        tree = self.sdk.get(
            f'/lbaas/loadbalancers/{balancer.id}/status').json()
        return set(re.findall(r'"(?:provisioning|operating)_status": "(\w+)"',
                              json.dumps(tree)))

    def _carried(self, web, hosts):
        """The nodes on which just its members take traffic, if these are
        those that should."""
        on = {host: enabled for host in topology.NODES
              if (enabled := services(self.lab, host).get(web.vip))
              is not None}
        right = len(on) == 1 if hosts is None else set(on) == set(hosts)
        return sorted(on) if right and set(on.values()) == {
            len(web.hosts)} else None

    def check_gone(self, web):
        """:raises Wrong: a deleted load balancer is still somewhere."""
        self._until(f'{web.name}: DELETED', lambda: self.find(web) is None)
        self._until(f'{web.name}: gone from the nodes', lambda: not any(
            web.vip in services(self.lab, host) for host in topology.NODES))


def services(lab, host):
    """VIP → members that take traffic, of all services of a node."""
    with inspection.Inspection(
            str(nodes.pin_directory(lab, host)),
            str(nodes.run_directory(lab, host) / 'datapath.lock'),
            library=str(paths.LIBRARY)) as opened:
        return {service.key.address: service.enabled
                for service in opened.services()}

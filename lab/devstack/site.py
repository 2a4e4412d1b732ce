# SPDX-License-Identifier: Apache-2.0
"""The plugin's variables (devstack/settings) in Python."""

import dataclasses
import functools
import hashlib
import os
import pathlib
import re

from lab import paths
from octavia_xdp_provider.controller import broker

ALL, NODE = 'all', 'node'
HYPERVISORS_MAX = 60
# The network between LB nodes and their host.
MANAGEMENT = 'OCTAVIA_XDP_MANAGEMENT_PREFIX'


@dataclasses.dataclass(frozen=True)
class Site:
    """One host of a DevStack."""

    variables: dict

    @classmethod
    def from_environment(cls):
        """:raises LabError: a variable has an invalid value."""
        site = cls(dict(os.environ))
        site.check()
        return site

    def value(self, name):
        """Return a variable's value.

        :raises LabError: it is not set.
        """
        value = self.variables.get(name, '')
        if not value:
            raise paths.LabError(
                f'{name} is not set: devstack/settings has its default, '
                'which plugin.sh exports')
        return value

    def check(self):
        """:raises LabError: a variable has an invalid value."""
        if self.role not in (ALL, NODE):
            raise paths.LabError(
                f'OCTAVIA_XDP_ROLE={self.role} is invalid: use "{ALL}" on '
                f'the host of Octavia, "{NODE}" on further hosts')
        self._check_nodes()
        self._check_hypervisors()
        if self.role == NODE and not self.variables.get(
                'OCTAVIA_XDP_ROUTER_HOST'):
            raise paths.LabError(
                'OCTAVIA_XDP_ROUTER_HOST is not set: with '
                'OCTAVIA_XDP_ROLE=node it is the address of the host that '
                'has the router, usually SERVICE_HOST')

    def _check_nodes(self):
        if not self.nodes and not (self.role == NODE and self.hypervisor):
            raise paths.LabError(
                'OCTAVIA_XDP_NODES is empty: only a further host that is a '
                'hypervisor (OCTAVIA_XDP_ROLE=node, OCTAVIA_XDP_HYPERVISOR) '
                'can be without LB nodes')
        names = [*self.nodes, *self.remote_nodes]
        for name in names:
            if not re.fullmatch(r'lb[1-9]\d?', name):
                raise paths.LabError(
                    f'OCTAVIA_XDP_NODES or OCTAVIA_XDP_REMOTE_NODES: {name!r} '
                    'is no valid name of an LB node: use lb1, lb2 and so on, '
                    'up to lb60; addresses are derived from the number')
            if paths.number(name) > 60:
                raise paths.LabError(
                    f'OCTAVIA_XDP_NODES: {name} is too high: use at most lb60')
        if len(set(names)) < len(names):
            raise paths.LabError(
                'OCTAVIA_XDP_NODES and OCTAVIA_XDP_REMOTE_NODES: a name is '
                'repeated: each LB node needs its own, on all hosts')

    def _check_hypervisors(self):
        hosts = self.hypervisors
        for name in filter(None, (self.hypervisor, *hosts)):
            if not re.fullmatch(r'[0-9A-Za-z._-]{1,255}', name):
                raise paths.LabError(
                    f'OCTAVIA_XDP_HYPERVISOR, OCTAVIA_XDP_HYPERVISORS: '
                    f'{name!r} is no valid name of a host: use its name in '
                    'Neutron, usually the output of hostname')
        if len(hosts) > HYPERVISORS_MAX:
            raise paths.LabError(
                f'OCTAVIA_XDP_HYPERVISORS has {len(hosts)} hosts, the limit '
                f'is {HYPERVISORS_MAX}')
        if self.hypervisor and self.hypervisor not in hosts:
            raise paths.LabError(
                'OCTAVIA_XDP_HYPERVISORS does not name this host, '
                f'{self.hypervisor}: list all hypervisors, as in '
                f'{self.hypervisor}=192.0.2.7, with the same value on all '
                'hosts')
        own = self.variables.get('OCTAVIA_XDP_HOST_ADDRESS')
        for name in (name for name, address in hosts.items()
                     if address == own and name != self.hypervisor):
            # A tunnel to this address would lead back to this host.
            raise paths.LabError(
                f'OCTAVIA_XDP_HYPERVISORS: {name} has the address of this '
                f'host, {own}, which is not that hypervisor: give {name} its '
                f'own address, or set OCTAVIA_XDP_HYPERVISOR={name} here')

    @functools.cached_property
    def lab(self):
        """The namespaces and files of this host."""
        return paths.Lab(self.value('OCTAVIA_XDP_LAB'))

    @property
    def role(self):
        return self.value('OCTAVIA_XDP_ROLE')

    @property
    def hypervisor(self):
        """This host's name in Neutron, if VMs on it are members; or ''."""
        return self.variables.get('OCTAVIA_XDP_HYPERVISOR', '')

    @property
    def hypervisors(self):
        """All hypervisors: {name in Neutron: the host's address}.

        Their order determines their addresses in the fabric.
        """
        hosts = self._addresses('OCTAVIA_XDP_HYPERVISORS', 'compute2')
        if not hosts and self.role == ALL and self.hypervisor:
            return {self.hypervisor: ''}
        return hosts

    @property
    def nodes(self):
        """The LB nodes of this host."""
        return self.variables.get('OCTAVIA_XDP_NODES', '').split()

    @property
    def remote_nodes(self):
        """LB nodes of other hosts: {name: the host's address}."""
        return self._addresses('OCTAVIA_XDP_REMOTE_NODES', 'lb3')

    def _addresses(self, variable, example):
        """Parse a variable with pairs NAME=ADDRESS to a dictionary."""
        addresses = {}
        for word in self.variables.get(variable, '').split():
            name, sign, address = word.partition('=')
            if not sign or not address:
                raise paths.LabError(
                    f'{variable}: {word!r} has no address: write '
                    f'NAME=ADDRESS, as in {example}=192.0.2.7')
            if name in addresses:
                raise paths.LabError(f'{variable}: {name} is repeated')
            addresses[name] = address
        return addresses

    @property
    def configuration(self):
        """The configuration file of driver and controller."""
        return pathlib.Path(self.value('OCTAVIA_XDP_CONF'))

    @property
    def user(self):
        """The user that runs driver and controller."""
        return self.value('OCTAVIA_XDP_USER')

    def password(self, user):
        """Derive a user's password, the same on all hosts of a DevStack."""
        return hashlib.sha256(
            f'{self.value("OCTAVIA_XDP_PASSWORD")} {user}'.encode()
        ).hexdigest()[:32]

    def transport_url(self, user, vhost):
        """Return the URL of a user of the provider at DevStack's broker."""
        return broker.transport_url(
            self.value('OCTAVIA_XDP_TRANSPORT_URL'), user,
            self.password(user)).rpartition('/')[0] + f'/{vhost}'

    def management_address(self, node=None):
        """Return the address of a node, or the host, in their network."""
        number = 10 + paths.number(node) if node else 1
        return f'{self.value(MANAGEMENT)}.{number}'

    def program(self, name):
        """Return the path of a command of the provider."""
        return pathlib.Path(self.value('OCTAVIA_XDP_BIN_DIR')) / name

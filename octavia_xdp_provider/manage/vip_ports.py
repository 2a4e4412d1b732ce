# SPDX-License-Identifier: Apache-2.0
"""The command that finds ports of VIPs whose load balancer does not exist."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
import datetime
import ipaddress
from typing import Any

from oslo_utils import timeutils

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.controller.neutron_ports import client
from octavia_xdp_provider.controller.neutron_ports import errors
from octavia_xdp_provider.controller.octavia import client as octavia
from octavia_xdp_provider.controller.octavia import errors as octavia_errors
from octavia_xdp_provider.manage import command
from octavia_xdp_provider.manage import members
from octavia_xdp_provider.manage import sync

Port = Mapping[str, Any]

# How Octavia marks the ports that it creates.
_OWNER = 'Octavia'
_DEVICE = 'lb-'
# Younger ports are left alone: a load balancer is invisible until the
# transaction that creates it ends.
_AGE = datetime.timedelta(hours=1)


class Orphans(command.List):
    """List VIP ports of load balancers that do not exist.

    Octavia creates a VIP's port before it stores the load balancer. If
    octavia-api is killed in between, the port stays and keeps its address.
    This lists the ports that Octavia created more than an hour ago and whose
    addresses are in [vip] allowed_networks. Without --delete nothing is
    changed; the exit status is 2 if there are orphans. Neutron is used with
    the credentials of [neutron]: for --delete, its user must be allowed to
    delete ports of all projects.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--delete', action='store_true',
                            help='delete the ports')
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._are_left = False
        return super().run(parsed_args) or (
            sync.DRIFT if self._are_left else 0)

    def take_action(self, arguments: argparse.Namespace) -> command.Table:
        self._octavia = octavia.Octavia(self.conf)
        try:
            ports = members.open_neutron(self.conf)
            orphans = list(self._find(ports))
            deleted = set()
            for port in orphans if arguments.delete else ():
                if self._is_missing(port):
                    ports.delete_port(port['id'])
                    deleted.add(port['id'])
        except (octavia_errors.OctaviaUnavailable,
                errors.NeutronUnavailable) as error:
            raise command.CommandError(str(error)) from error
        self._are_left = bool(orphans) and not arguments.delete
        return ('port', 'load_balancer', 'project', 'addresses', 'created',
                'deleted'), [
            (port['id'], _load_balancer_id(port), port.get('project_id'),
             ' '.join(_addresses(port)), port['created_at'],
             port['id'] in deleted) for port in orphans]

    def _find(self, ports: client.Neutron) -> Iterator[Port]:
        networks = option_values.networks(self.conf, 'vip',
                                          'allowed_networks')
        before = timeutils.utcnow(with_timezone=True) - _AGE
        old_ports = [
            port for port in ports.ports_of_owner(_OWNER)
            if port['device_id'].startswith(_DEVICE)
            and _was_created(port, before)
            and all(any(ipaddress.ip_address(address) in network
                        for network in networks)
                    for address in _addresses(port))]
        known = {row.id for row in self._octavia.listed()}
        for port in sorted(old_ports, key=lambda port: port['id']):
            if _load_balancer_id(port) not in known and self._is_missing(port):
                yield port

    def _is_missing(self, port: Port) -> bool:
        """Ask Octavia, whose list has this provider's load balancers only."""
        return self._octavia.provisioning_status(
            _load_balancer_id(port)) is None


def _load_balancer_id(port: Port) -> str:
    return str(port['device_id'][len(_DEVICE):])


def _addresses(port: Port) -> list[str]:
    return [fixed['ip_address'] for fixed in port.get('fixed_ips') or ()]


def _was_created(port: Port, before: datetime.datetime) -> bool:
    """Return False also if Neutron does not report the time."""
    created = port.get('created_at')
    return bool(created and timeutils.parse_isotime(created) < before)

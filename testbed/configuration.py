# SPDX-License-Identifier: Apache-2.0
"""Renders the configuration of switches and the boot server from leases.

It contains only number, machines and kernel of a lease, never owner and
purpose, which users type. Everything else comes from the inventory and is
restricted by its schema.
"""

from collections.abc import Sequence
import dataclasses
import ipaddress
import pathlib
from typing import Any

import jinja2

from testbed import inventory
from testbed import leases

TEMPLATES = pathlib.Path(__file__).parent / 'templates'
SWITCHES, BOOT = 'switches', 'boot'
FRR, INTERFACES = 'frr.conf', 'interfaces'
KERNELS = 'kernels'
# The root folder of servers.
SERVED = 'served'


@dataclasses.dataclass(frozen=True)
class _Neighbor:
    address: str
    as_number: int
    version: int


@dataclasses.dataclass(frozen=True)
class _Bed:
    """The part of a lease at one switch."""

    vrf: str
    router_id: str
    ports: tuple[inventory.Port, ...]
    neighbors: tuple[_Neighbor, ...]


def vrf(number: int) -> str:
    """Return the VRF of a lease, of at most 15 bytes, the kernel's limit."""
    return f'bed{number}'


def render(active: Sequence[leases.Lease],
           known: inventory.Inventory) -> dict[str, str]:
    """Return texts of files by path, for the active leases.

    Machines that are no longer in the inventory have no ports.
    """
    files = {}
    for switch in known.switches.values():
        names = _switch_names(switch, active, known)
        for file in FRR, INTERFACES:
            files[f'{SWITCHES}/{switch.name}/{file}'] = _text(
                f'switch/{file}', **names)
    if known.boot is not None:
        for lease in active:
            files.update(_boot_files(lease, known, known.boot))
    return files


def _switch_names(switch, active, known) -> dict[str, Any]:
    beds = []
    taken = set()
    for lease in active:
        ports = [port for name in lease.machines if name in known.machines
                 for port in known.machines[name].ports
                 if port.switch == switch.name]
        if ports:
            beds.append(_bed(lease, switch, ports))
        taken.update(port.port for port in ports)
    every = {port.port for machine in known.machines.values()
             for port in machine.ports if port.switch == switch.name}
    return {'switch': switch, 'beds': beds, 'free': sorted(every - taken)}


def _bed(lease, switch, ports):
    neighbors = tuple(
        _Neighbor(*port.bgp, ipaddress.ip_address(port.bgp[0]).version)
        for port in ports if port.bgp is not None)
    return _Bed(vrf(lease.number), _router_id(switch, ports), tuple(ports),
                neighbors)


def _router_id(switch, ports):
    """Return an IPv4 address of the bed or the switch, else a placeholder.

    A router id must be unique only within an AS (RFC 6286).
    """
    for text in [*(address for port in ports for address in port.addresses),
                 switch.address]:
        address = ipaddress.ip_interface(text).ip
        if address.version == 4:
            return str(address)
    return '0.0.0.1'


def kernel_url(boot: inventory.Boot, kernel: str) -> str:
    """Return the URL of a kernel's files on the boot server."""
    return f'{_url(boot)}/{KERNELS}/{kernel}'


def _url(boot):
    port = f':{boot.http_port}' if boot.protocol == 'http' else ''
    return f'{boot.protocol}://{boot.address}{port}'


def _boot_files(lease, known, boot):
    kernel = known.kernels.get(lease.kernel)
    if kernel is None:
        return
    url = kernel_url(boot, kernel.name)
    parameters = f'{kernel.parameters} octavia_xdp_lease={lease.number}'
    text = _text('boot/machine.ipxe', lease=lease.number, url=url,
                 parameters=parameters.replace('@root@', f'{url}/root'
                                               ).strip())
    for name in lease.machines:
        machine = known.machines.get(name)
        if machine is not None and machine.mac is not None:
            yield f'{BOOT}/{script_name(machine.mac)}', text


def script_name(mac: str) -> str:
    """Return the name of the script that a machine's iPXE runs."""
    return f'{mac.replace(":", "-")}.ipxe'


def boot_servers(scripts: Sequence[str], boot: inventory.Boot,
                 folder: pathlib.Path, user: str | None) -> dict[str, str]:
    """Return configurations of the needed servers, by file name.

    :param scripts: names of the machines' scripts.
    :param folder: folder with "served" and "run".
    :param user: user and group of nginx's worker; None: unchanged.
    """
    hosts = [{'mac': name.removesuffix('.ipxe').replace('-', ':'),
              'tag': 'm' + name.removesuffix('.ipxe').replace('-', ''),
              'script': f'{_url(boot)}/{name}'} for name in sorted(scripts)]
    texts = {'dnsmasq.conf': _text('boot/dnsmasq.conf', boot=boot, hosts=hosts,
                                   tftp=folder / SERVED)}
    if boot.protocol == 'http':
        texts['nginx.conf'] = _text(
            'boot/nginx.conf', run=folder / 'run', user=user,
            listen=f'{boot.address}:{boot.http_port}', root=folder / SERVED)
    return texts


def _text(template: str, **names: Any) -> str:
    environment = jinja2.Environment(  # noqa: S701  # no HTML
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined)
    return environment.get_template(template).render(**names)

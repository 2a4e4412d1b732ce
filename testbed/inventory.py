# SPDX-License-Identifier: Apache-2.0
"""The inventory: machines that can be reserved, switches and boot server."""

from collections.abc import Mapping
import dataclasses
import ipaddress
import pathlib
from typing import Any

from bench.declarations import document as declarations
from testbed import inventory_schema

LONGEST_HOURS = 336
HTTP_PORT = 8069


@dataclasses.dataclass(frozen=True)
class Port:
    """A machine's port at a switch.

    :param addresses: addresses of the switch, with prefix lengths.
    :param bgp: (address, AS number) of the machine's speaker, or None.
    """

    switch: str
    port: str
    addresses: tuple[str, ...]
    bgp: tuple[str, int] | None


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine that can be reserved.

    :param mac: MAC of the booting interface; None: it boots from its disk.
    """

    name: str
    role: str
    address: str
    mac: str | None
    ports: tuple[Port, ...]


@dataclasses.dataclass(frozen=True)
class Switch:
    """A host with FRR and ifupdown2.

    :param host_key: public key; None: it is in known_hosts of the user.
    :param announced: networks in which machines may announce routes by BGP.
    """

    name: str
    address: str
    as_number: int
    user: str
    connection: str
    host_key: str | None
    announced: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel that machines can boot.

    :param root: a file that the initramfs fetches, if any.
    """

    name: str
    kernel: pathlib.Path
    initramfs: pathlib.Path
    root: pathlib.Path | None
    parameters: str

    def files(self) -> dict[str, pathlib.Path]:
        """Return files by the name under which they are served."""
        files = {'vmlinuz': self.kernel, 'initramfs': self.initramfs}
        return files if self.root is None else {**files, 'root': self.root}


@dataclasses.dataclass(frozen=True)
class Boot:
    """The boot server on this host.

    :param protocol: http or tftp, for all files but the loader, which is
        fetched by TFTP.
    """

    interface: str
    address: str
    network: ipaddress.IPv4Network
    protocol: str
    http_port: int


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The whole inventory; mappings are by name."""

    path: pathlib.Path
    machines: Mapping[str, Machine]
    switches: Mapping[str, Switch]
    kernels: Mapping[str, Kernel]
    boot: Boot | None
    longest_hours: int


def load(path: pathlib.Path) -> Inventory:
    """Read an inventory.

    :raises bench.errors.DeclarationError: it is invalid; with the line.
    :raises bench.errors.BenchError: it cannot be read.
    """
    document = declarations.read(path, inventory_schema.SCHEMA)
    try:
        return _inventory(path, document.data)
    except _Wrong as error:
        raise document.error(error.text, *error.keys) from None


class _Wrong(Exception):
    """A mistake that the schema cannot express, and the keys to it."""

    def __init__(self, text: str, *keys: str | int):
        super().__init__(text)
        self.text, self.keys = text, keys


def _inventory(path: pathlib.Path, content: dict[str, Any]) -> Inventory:
    switches = {name: _switch(name, switch)
                for name, switch in content.get('switches', {}).items()}
    machines = {name: _machine(name, machine, switches)
                for name, machine in content['machines'].items()}
    _refuse_shared_addresses(switches, machines)
    _refuse_shared_ports(machines)
    kernels = {name: _kernel(path.parent, name, kernel)
               for name, kernel in content.get('kernels', {}).items()}
    boot = _boot(content['boot']) if 'boot' in content else None
    if kernels and boot is None:
        raise _Wrong('kernels are served by nobody: "boot" is missing',
                     'kernels')
    return Inventory(path, machines, switches, kernels, boot,
                     content.get('longest_lease_hours', LONGEST_HOURS))


def _switch(name: str, content: dict[str, Any]) -> Switch:
    return Switch(
        name, content['address'], content['as'], content.get('user', 'root'),
        content.get('connection', 'ssh'), content.get('host_key'),
        tuple(content.get('announced', ())))


def _machine(name: str, content: dict[str, Any],
             switches: Mapping[str, Switch]) -> Machine:
    return Machine(
        name, content['role'], content['address'], content.get('mac'),
        tuple(_port(port, switches, 'machines', name, 'ports', number)
              for number, port in enumerate(content.get('ports', ()))))


def _port(content: dict[str, Any], switches: Mapping[str, Switch],
          *keys: str | int) -> Port:
    if content['switch'] not in switches:
        raise _Wrong(f'there is no switch {content["switch"]!r}', *keys,
                     'switch')
    addresses = tuple(map(ipaddress.ip_interface, content['addresses']))
    bgp = None
    if 'bgp' in content:
        bgp = content['bgp']['address'], content['bgp']['as']
        if not any(ipaddress.ip_address(bgp[0]) in address.network
                   for address in addresses):
            raise _Wrong(f'{bgp[0]} is in no network of this port', *keys,
                         'bgp', 'address')
    return Port(content['switch'], content['port'],
                tuple(map(str, addresses)), bgp)


def _refuse_shared_addresses(switches: Mapping[str, Switch],
                             machines: Mapping[str, Machine]) -> None:
    """Refuse management addresses that several hosts have."""
    owners: dict[Any, str] = {}
    for kind, hosts in ('switches', switches), ('machines', machines):
        for host in hosts.values():
            other = owners.setdefault(ipaddress.ip_address(host.address),
                                      host.name)
            if other != host.name:
                raise _Wrong(f'{host.address} is the address of {other} '
                             'already', kind, host.name, 'address')


def _refuse_shared_ports(machines: Mapping[str, Machine]) -> None:
    ports: dict[tuple[str, str], str] = {}
    macs: dict[str, str] = {}
    for machine in machines.values():
        if machine.mac is not None:
            other = macs.setdefault(machine.mac, machine.name)
            if other != machine.name:
                raise _Wrong(f'{machine.mac} is the address of {other} '
                             'already', 'machines', machine.name, 'mac')
        for number, port in enumerate(machine.ports):
            place = port.switch, port.port
            if place in ports:
                raise _Wrong(
                    f'{port.port} of {port.switch} is the port of '
                    f'{ports[place]} already', 'machines', machine.name,
                    'ports', number)
            ports[place] = machine.name


def _kernel(folder: pathlib.Path, name: str,
            content: dict[str, Any]) -> Kernel:
    def file(key: str) -> pathlib.Path:
        path = folder / content[key]
        if not path.is_file():
            raise _Wrong(f'there is no file {path}', 'kernels', name, key)
        return path.resolve()

    root = file('root') if 'root' in content else None
    parameters = content.get('parameters', '')
    if '@root@' in parameters and root is None:
        raise _Wrong('@root@ stands for nothing: "root" is missing',
                     'kernels', name, 'parameters')
    return Kernel(name, file('kernel'), file('initramfs'), root, parameters)


def _boot(content: dict[str, Any]) -> Boot:
    network = ipaddress.ip_network(content['network'])
    address = content['address']
    # PXE uses DHCPv4.
    if not isinstance(network, ipaddress.IPv4Network):
        raise _Wrong('an IPv4 network is needed: machines boot by DHCPv4',
                     'boot', 'network')
    if ipaddress.ip_address(address) not in network:
        raise _Wrong(f'{address} is not in {network}', 'boot', 'address')
    protocol = content.get('protocol', 'http')
    if protocol != 'http' and 'http_port' in content:
        raise _Wrong(f'nothing listens there with the protocol {protocol}',
                     'boot', 'http_port')
    return Boot(content['interface'], address, network, protocol,
                content.get('http_port', HTTP_PORT))

# SPDX-License-Identifier: Apache-2.0
"""VMs: namespaces, plugged like Nova's os-vif does in its "hybrid" mode.

::

    VM                    hypervisor
    eth0 (bridge) - nic0 = tap… - qbr… (bridge) - qvb… = qvo… - br-int

QEMU opens the tap of a real VM; here the tap is the end of a veth pair.
Between it and Open vSwitch are a Linux bridge and another pair, so that tc
programs at the tap act before Open vSwitch, as with the kernel's datapath.
The guest's network card, eth0, is a bridge whose only port is the cable to
the hypervisor: it keeps its addresses, routes and connections while the
cable is moved.
"""

import contextlib
import socket
import struct

from lab import namespaces
from lab import processes
from lab.fabric import links
from lab.fabric import nginx
from lab.ovn import hypervisors

NIC = 'eth0'
# Only one at a time is in the VM's bridge.
CABLES = ('nic0', 'nic1')
SECTION = 'vms'
HTTP_PORT = 8080


def names(port_id):
    """Return os-vif's names of a port's tap, bridge, and both veth ends."""
    return tuple(f'{prefix}{port_id[:11]}'
                 for prefix in ('tap', 'qbr', 'qvb', 'qvo'))


def create(lab, vm, hypervisor, port):
    """Create a VM on the hypervisor to which Neutron has bound its port.

    :param port: a dictionary with id, mac, mtu, addresses (as
        '10.0.0.5/24') and gateways (addresses).
    """
    namespaces.create(lab, vm)
    namespaces.bridge(lab, vm, NIC)
    with namespaces.link(lab, vm) as netlink:
        netlink.link('set', index=namespaces.index(netlink, NIC),
                     address=port['mac'], mtu=port['mtu'])
    for address in port['addresses']:
        namespaces.address(lab, vm, NIC, address)
    lab.state.put(SECTION, vm, {'port': port, 'hypervisor': None,
                                'cable': None})
    prepare(lab, vm, hypervisor)
    _switch(lab, vm, hypervisor, _lay_cable(lab, vm, hypervisor))
    for gateway in port['gateways']:
        namespaces.route(lab, vm, 'default', via=gateway)
    lab.state.put('addresses', vm, {
        str(i): address for i, address in enumerate(port['addresses'])})


def prepare(lab, vm, hypervisor):
    """Plug a VM's port into a hypervisor, as Nova does before it starts."""
    port = _record(lab, vm)['port']
    _tap, bridge, inner, outer = names(port['id'])
    links.cable(lab, (hypervisor, inner), (hypervisor, outer), port['mtu'])
    namespaces.bridge(lab, hypervisor, bridge, [inner])
    links.set_mtu(lab, hypervisor, bridge, port['mtu'])
    hypervisors.vsctl(
        lab, hypervisor, 'add-port', hypervisors.INTEGRATION_BRIDGE, outer,
        '--', 'set', 'Interface', outer,
        f'external_ids:iface-id={port["id"]}',
        'external_ids:iface-status=active',
        f'external_ids:attached-mac="{port["mac"]}"',
        f'external_ids:vm-id={vm}')


def clean(lab, vm, hypervisor):
    """Undo prepare(); ignore what does not exist."""
    port = _record(lab, vm)['port']
    tap, bridge, inner, outer = names(port['id'])
    hypervisors.vsctl(lab, hypervisor, '--if-exists', 'del-port',
                      hypervisors.INTEGRATION_BRIDGE, outer)
    for interface in tap, inner, bridge:
        _remove(lab, hypervisor, interface)


def migrate(lab, vm, hypervisor, move_binding, ready=lambda: None):
    """Move a VM to another hypervisor like a live migration.

    :param move_binding: binds the VM's port to that hypervisor in Neutron.
    :param ready: called when the new tap exists, while the VM still runs on
        the old hypervisor. QEMU creates the tap when it begins to receive the
        VM's memory.
    """
    old = _record(lab, vm)['hypervisor']
    prepare(lab, vm, hypervisor)
    cable = _lay_cable(lab, vm, hypervisor)
    ready()
    _switch(lab, vm, hypervisor, cable)
    announce(lab, vm)
    move_binding()
    announce(lab, vm)
    clean(lab, vm, old)


def delete(lab, vm):
    """Stop a VM and unplug it from its hypervisor."""
    record = _record(lab, vm)
    for process in processes.all_of(lab):
        if process.host == vm:
            processes.stop(lab, process.name)
    clean(lab, vm, record['hypervisor'])
    namespaces.delete(lab, vm)
    lab.state.remove(SECTION, vm)
    lab.state.remove('addresses', vm)


def announce(lab, vm):
    """Announce the VM's MAC address by RARP, like QEMU."""
    mac = bytes.fromhex(_record(lab, vm)['port']['mac'].replace(':', ''))
    frame = (b'\xff' * 6 + mac + struct.pack(
        '!HHHBBH', 0x8035, 1, 0x0800, 6, 4, 3)
        + mac + bytes(4) + mac + bytes(4)).ljust(60, b'\0')
    with (namespaces.inside(lab, vm),
          socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw):
        raw.bind((NIC, 0))
        raw.send(frame)


def start_http(lab, vm, port=HTTP_PORT):
    """Start nginx, without any configuration for load balancers."""
    nginx.start(lab, vm, [port], lambda: processes.run(
        lab, vm, ['curl', '-s', '-m', '2', f'http://127.0.0.1:{port}/'],
        check=False).stdout == f'{vm}\n')


def _lay_cable(lab, vm, hypervisor):
    """Create a tap on a hypervisor after prepare().

    :returns: the name of its other end, which the VM does not use yet.
    """
    record = _record(lab, vm)
    port = record['port']
    tap, bridge, _inner, _outer = names(port['id'])
    cable = CABLES[record['cable'] == CABLES[0]]
    links.cable(lab, (vm, cable), (hypervisor, tap), port['mtu'])
    namespaces.join_bridge(lab, hypervisor, bridge, tap)
    return cable


def _switch(lab, vm, hypervisor, cable):
    """Let the VM use this cable only."""
    record = _record(lab, vm)
    if record['hypervisor']:
        # This also removes the other end, in the VM.
        _remove(lab, record['hypervisor'], names(record['port']['id'])[0])
    namespaces.join_bridge(lab, vm, NIC, cable)
    lab.state.put(SECTION, vm, {**record, 'hypervisor': hypervisor,
                                'cable': cable})


def _remove(lab, host, interface):
    with namespaces.link(lab, host) as netlink:
        for index in netlink.link_lookup(ifname=interface):
            with contextlib.suppress(LookupError):
                netlink.link('del', index=index)


def _record(lab, vm):
    return lab.state.section(SECTION)[vm]

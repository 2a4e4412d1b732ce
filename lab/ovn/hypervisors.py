# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: Open vSwitch in user space, ovn-controller, four cables.

    eth0  underlay: LB nodes and clients; a plain interface with an address
    eth1  tunnels of OVN, in br-tun0
    eth2  provider network, in br-ex
    eth3  an underlay of IPv6 alone; a plain interface

The machine's kernel may lack Open vSwitch, so its datapath in user space
("netdev") is used. That receives packets by AF_PACKET, which comes before tc
at an interface; the kernel's datapath comes after tc. So programs that must
act before Open vSwitch are at interfaces that are not in it: eth0, and the
taps of VMs (see vms.py).
"""

from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import links
from lab.ovn import central
from lab.ovn import ovsdb

NAMES = ('hv1', 'hv2')
TUNNEL, PROVIDER, UNDERLAY_V6 = 'eth1', 'eth2', 'eth3'
# Bridges of Open vSwitch. The first one has the address of tunnels: with an
# address on the interface itself, user space finds no route to its peers.
TUNNEL_BRIDGE, PROVIDER_BRIDGE, INTEGRATION_BRIDGE = 'br-tun0', 'br-ex', \
    'br-int'
# Bridges on the router, without hosts of their own.
UNDERLAY_SWITCH, TUNNEL_SWITCH, PROVIDER_SWITCH = 'hvs', 'tunnels', 'provider'
UNDERLAY_SWITCH_V6 = 'hvs-v6'
MTU = 1500

DATABASE, SWITCH, CONTROLLER = 'ovsdb', 'vswitchd', 'ovn-controller'
# In the order of their start.
PROCESSES = (DATABASE, SWITCH, CONTROLLER)


def process(hypervisor, name):
    """Return the name of a hypervisor's process in the lab."""
    return f'{hypervisor}-{name}'


def address(hypervisor, version=4):
    """Return the hypervisor's address on its uplink."""
    return paths.hypervisor_address(paths.number(hypervisor), version)


def bpf_directory(lab, hypervisor):
    """Return the directory of a hypervisor's own BPF file system."""
    return lab.run_directory / hypervisor / 'bpf'


def make_switches(lab):
    """Create the networks of the hypervisors; the router is their gateway."""
    for switch, addresses in (
            (UNDERLAY_SWITCH, (
                f'{paths.HYPERVISOR_GATEWAY}/'
                f'{paths.HYPERVISOR_NETWORK.prefixlen}',
                f'{paths.HYPERVISOR_GATEWAY_V6}/'
                f'{paths.HYPERVISOR_NETWORK_V6.prefixlen}')),
            (UNDERLAY_SWITCH_V6, (
                f'{paths.UNDERLAY_GATEWAY_V6}/'
                f'{paths.UNDERLAY_NETWORK_V6.prefixlen}',)),
            (TUNNEL_SWITCH, ()),
            (PROVIDER_SWITCH, (
                f'{paths.PROVIDER_GATEWAY}/'
                f'{paths.PROVIDER_NETWORK.prefixlen}',))):
        namespaces.bridge(lab, links.ROUTER, switch)
        for cidr in addresses:
            namespaces.address(lab, links.ROUTER, switch, cidr)


def create(lab, hypervisor):
    """Create a hypervisor and its cables, without processes."""
    namespaces.create(lab, hypervisor)
    links.open_paths(lab, hypervisor)
    management = namespaces.join_management(lab, hypervisor)
    for interface, switch in ((links.UPLINK, UNDERLAY_SWITCH),
                              (TUNNEL, TUNNEL_SWITCH),
                              (PROVIDER, PROVIDER_SWITCH),
                              (UNDERLAY_V6, UNDERLAY_SWITCH_V6)):
        port = f'{hypervisor}-{interface}'
        links.cable(lab, (hypervisor, interface), (links.ROUTER, port), MTU)
        namespaces.join_bridge(lab, links.ROUTER, switch, port)
    for network, version, gateway in (
            (paths.HYPERVISOR_NETWORK, 4, paths.HYPERVISOR_GATEWAY),
            (paths.HYPERVISOR_NETWORK_V6, 6, paths.HYPERVISOR_GATEWAY_V6)):
        namespaces.address(lab, hypervisor, links.UPLINK,
                           f'{address(hypervisor, version)}/'
                           f'{network.prefixlen}')
        namespaces.route(lab, hypervisor, 'default', via=gateway)
    namespaces.address(
        lab, hypervisor, UNDERLAY_V6,
        f'{paths.underlay_address_v6(paths.number(hypervisor))}/'
        f'{paths.UNDERLAY_NETWORK_V6.prefixlen}')
    namespaces.route(
        lab, links.ROUTER, str(paths.sid_network(paths.number(hypervisor))),
        via=address(hypervisor, 6))
    directory = bpf_directory(lab, hypervisor)
    directory.mkdir(parents=True)
    processes.run(lab, None,
                  ['mount', '-t', 'bpf', '-o', 'mode=0700', 'bpf', directory])
    lab.state.put('addresses', hypervisor, {
        'uplink': address(hypervisor), 'management': management})


def start(lab, hypervisor):
    """Start Open vSwitch and OVN, until OVN's databases list it."""
    host = ovsdb.Host(lab, hypervisor)
    host.make_directories()
    host.start_database(process(hypervisor, DATABASE), 'db',
                        'vswitch.ovsschema')
    vsctl(lab, hypervisor, '--no-wait', 'init')
    # Set these before ovn-controller registers: it logs errors on changes.
    vsctl(lab, hypervisor, '--no-wait', 'set', 'Open_vSwitch', '.', *(
        f'external_ids:{key}={value}'
        for key, value in _settings(hypervisor).items()))
    start_switch(lab, hypervisor)
    _make_bridge(lab, hypervisor, TUNNEL_BRIDGE, TUNNEL)
    _make_bridge(lab, hypervisor, PROVIDER_BRIDGE, PROVIDER)
    number = paths.number(hypervisor)
    namespaces.address(
        lab, hypervisor, TUNNEL_BRIDGE,
        f'{paths.tunnel_address(number)}/{paths.TUNNEL_NETWORK.prefixlen}')
    namespaces.up(lab, hypervisor, TUNNEL_BRIDGE)
    start_controller(lab, hypervisor)


def start_switch(lab, hypervisor):
    """Start ovs-vswitchd, with the bridges in its database."""
    host = ovsdb.Host(lab, hypervisor)
    name = process(hypervisor, SWITCH)
    host.start(name, 'ovs-vswitchd', f'unix:{host.socket("db")}',
               '--disable-system', f'--unixctl={host.control(name)}')


def start_controller(lab, hypervisor):
    """Start ovn-controller."""
    host = ovsdb.Host(lab, hypervisor)
    host.start(process(hypervisor, CONTROLLER), 'ovn-controller',
               f'unix:{host.socket("db")}',
               ready=lambda: has_bridge(lab, hypervisor, INTEGRATION_BRIDGE))


def vsctl(lab, hypervisor, *arguments, **options):
    """Run ovs-vsctl, which waits for Open vSwitch, and return its output."""
    host = ovsdb.Host(lab, hypervisor)
    return host.run('ovs-vsctl', f'--db=unix:{host.socket("db")}',
                    '--timeout=60', *arguments, **options)


def has_bridge(lab, hypervisor, bridge):
    """Return whether Open vSwitch has a bridge."""
    return bridge in vsctl(lab, hypervisor, 'list-br').split()


def _make_bridge(lab, hypervisor, bridge, interface):
    vsctl(lab, hypervisor, 'add-br', bridge, '--', 'set', 'Bridge', bridge,
          'datapath_type=netdev', '--', 'add-port', bridge, interface)


def _settings(hypervisor):
    """Return the settings of ovn-controller in Open vSwitch's database."""
    return {
        'system-id': hypervisor,
        'hostname': hypervisor,
        'ovn-remote': central.SOUTHBOUND.url,
        'ovn-remote-probe-interval': ovsdb.PROBE_MS,
        'ovn-encap-type': 'geneve',
        'ovn-encap-ip': paths.tunnel_address(paths.number(hypervisor)),
        'ovn-bridge-datapath-type': 'netdev',
        'ovn-bridge-mappings': (
            f'{central.PHYSICAL_NETWORK}:{PROVIDER_BRIDGE}'),
        'ovn-cms-options': 'enable-chassis-as-gw',
    }

# SPDX-License-Identifier: Apache-2.0
"""DevStack hosts as hypervisors: Nova's VMs on them are members.

Each host is cabled to a switch of the fabric's router, by a tunnel if the
router is on another host. LB nodes send packets for VMs through this cable,
and answers leave by it.
"""

import shutil

from lab import namespaces
from lab import paths
from lab import processes
from lab.control import ini
from lab.devstack import tunnels
from lab.fabric import links
from octavia_xdp_provider.controller import broker

SERVICE = 'o-xdp-host'
SWITCH = 'hvs'
FLAVOR = 'xdp-vms', {'zero_touch': 'required'}
# (network, address of the router in it)
NETWORKS = ((paths.HYPERVISOR_NETWORK, paths.HYPERVISOR_GATEWAY),
            (paths.HYPERVISOR_NETWORK_V6, paths.HYPERVISOR_GATEWAY_V6))
# Destinations of answers: clients, and LB nodes, which send probes.
BEHIND_ROUTER = (paths.CLIENT_NETWORK, paths.UPLINK_NETWORK,
                 paths.CLIENT_NETWORK_V6, paths.UPLINK_NETWORK_V6)


def interface(site):
    """Return the host's end of the cable."""
    return f'oxp-{site.lab.id}-hv'


def pin_directory(site):
    """Return the directory of pinned maps and programs."""
    return _bpf_directory(site) / 'octavia-xdp-host'


def _bpf_directory(site):
    return site.lab.run_directory / 'hypervisor' / 'bpf'


def make_bpf_directory(site):
    """Mount the agent's own BPF file system."""
    directory = _bpf_directory(site)
    directory.mkdir(parents=True)
    processes.run(site.lab, None,
                  ['mount', '-t', 'bpf', '-o', 'mode=0700', 'bpf', directory])


def controller_options(site):
    """Return options of controllers, if there is a hypervisor."""
    if not site.hypervisors:
        return {}
    return {'zero_touch': {
        'member_networks': site.value('OCTAVIA_XDP_VM_NETWORKS'),
        'node_networks': f'{paths.UPLINK_NETWORK},{paths.UPLINK_NETWORK_V6}',
        'host_networks': ','.join(str(network)
                                  for network, _gateway in NETWORKS)}}


def node_options(site):
    """Return options of LB nodes, without which they get no such members."""
    if not site.hypervisors:
        return {}
    return {'agent': {'probe_through_datapath': True}}


def make_switch(site):
    """Create the cables of all hypervisors to an existing router."""
    lab = site.lab
    # All ports of a switch have the same MTU.
    mtu = (links.FABRIC_MTU if list(site.hypervisors) == [site.hypervisor]
           else tunnels.MTU)
    namespaces.bridge(lab, links.ROUTER, SWITCH)
    for network, gateway in NETWORKS:
        namespaces.address(lab, links.ROUTER, SWITCH,
                           f'{gateway}/{network.prefixlen}')
    for number, (host, address) in enumerate(site.hypervisors.items(), 1):
        port = f'hv{number}'
        if host == site.hypervisor:
            tunnels.ip(lab, 'link', 'add', interface(site), 'mtu', mtu,
                       'type', 'veth', 'peer', 'name', port, 'mtu', mtu,
                       'netns', lab.namespace(links.ROUTER))
            _give_addresses(site)
        else:
            tunnels.lay(site, port, tunnels.HYPERVISORS + number, address,
                        mtu, links.ROUTER)
        namespaces.join_bridge(lab, links.ROUTER, SWITCH, port)
        namespaces.up(lab, links.ROUTER, port)
    links.set_mtu(lab, links.ROUTER, SWITCH, mtu)


def extend(site):
    """Create this host's cable to the router of another host."""
    tunnels.lay(site, interface(site), tunnels.HYPERVISORS + _number(site),
                site.value('OCTAVIA_XDP_ROUTER_HOST'), tunnels.MTU)
    _give_addresses(site)


def _number(site):
    """Return this host's number among the lab's hypervisors."""
    return list(site.hypervisors).index(site.hypervisor) + 1


def _give_addresses(site):
    lab, name = site.lab, interface(site)
    # Keep the MAC address when a host is set up again: the router would learn
    # a new one only after a while.
    tunnels.ip(lab, 'link', 'set', name, 'address',
               f'02:00:00:00:30:{_number(site):02x}')
    tunnels.ip(lab, 'link', 'set', name, 'up')
    for network, _gateway in NETWORKS:
        version, length = network.version, network.prefixlen
        own = paths.hypervisor_address(_number(site), version)
        tunnels.ip(lab, f'-{version}', 'address', 'add', f'{own}/{length}',
                   'dev', name, *(('nodad',) if version == 6 else ()))
    for network in BEHIND_ROUTER:
        gateway = next(gateway for local, gateway in NETWORKS
                       if local.version == network.version)
        tunnels.ip(lab, f'-{network.version}', 'route', 'replace', network,
                   'via', gateway, 'dev', name)


def disconnect(site):
    """Detach the programs from the cable."""
    shutil.rmtree(pin_directory(site), ignore_errors=True)


def configure(site):
    """Write the agent's configuration file."""
    if not site.hypervisor:
        return
    name, lab = broker.host_vhost(site.hypervisor), site.lab
    ini.write(_configuration(site), {
        'DEFAULT': {
            'host': site.hypervisor,
            'transport_url': site.transport_url(name, name),
            'use_stderr': True,
            'debug': site.value('OCTAVIA_XDP_DEBUG'),
        },
        'host_agent': {
            'underlay_interfaces': interface(site),
            'encapsulations': 'geneve',
            'ovsdb': site.value('OCTAVIA_XDP_OVSDB'),
            'run_directory': lab.run_directory / 'host-agent',
            'library': paths.HOST_LIBRARY,
            'pin_directory': pin_directory(site),
        },
    })


def command(site):
    """Return the command line of the agent."""
    return [site.program('octavia-xdp-host-agent'), '--config-file',
            _configuration(site)]


def _configuration(site):
    return site.lab.directory / 'octavia-xdp-host.conf'

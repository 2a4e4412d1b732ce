# SPDX-License-Identifier: Apache-2.0
"""The host of DevStack as a hypervisor: VMs of Nova on it are members.

A cable leads from the host itself to the router of the fabric. LB nodes send
packets for VMs there, and answers leave by it.
"""

import pathlib
import shutil

from lab import namespaces
from lab import paths
from lab.control import ini
from lab.fabric import links
from octavia_xdp_provider.controller import broker

SERVICE = 'o-xdp-host'
NUMBER = 1  # of the lab's addresses of hypervisors
ROUTER_PORT = 'hv'
FLAVOR = 'xdp-vms', {'zero_touch': 'required'}
# The gateway of each is the router's.
NETWORKS = ((paths.HYPERVISOR_NETWORK, paths.HYPERVISOR_GATEWAY),
            (paths.HYPERVISOR_NETWORK_V6, paths.HYPERVISOR_GATEWAY_V6))
# Where answers go: to clients, and to LB nodes, which probe.
BEHIND_ROUTER = (paths.CLIENT_NETWORK, paths.UPLINK_NETWORK,
                 paths.CLIENT_NETWORK_V6, paths.UPLINK_NETWORK_V6)


def interface(site):
    """The host's end of the cable."""
    return f'oxp-{site.lab.id}-hv'


def pin_directory(site):
    """Of maps and programs, on the host's own bpffs."""
    return pathlib.Path('/sys/fs/bpf', f'octavia-xdp-host-{site.lab.id}')


def controller_options(site):
    """What controllers have to know, if there is a hypervisor."""
    if not site.hypervisor:
        return {}
    return {'zero_touch': {
        'node_networks': f'{paths.UPLINK_NETWORK},{paths.UPLINK_NETWORK_V6}',
        'host_networks': ','.join(str(network)
                                  for network, _gateway in NETWORKS)}}


def node_options(site):
    """What LB nodes need so that they get such members."""
    if not site.hypervisor:
        return {}
    return {'agent': {'probe_through_datapath': True}}


def connect(site, run):
    """Lay the cable; the router is there.

    :param run: runs ip(8) in the host's own namespace.
    """
    lab, name = site.lab, interface(site)
    run(lab, 'link', 'add', name, 'mtu', links.FABRIC_MTU, 'type', 'veth',
        'peer', 'name', ROUTER_PORT, 'mtu', links.FABRIC_MTU, 'netns',
        lab.namespace(links.ROUTER))
    namespaces.up(lab, links.ROUTER, ROUTER_PORT)
    run(lab, 'link', 'set', name, 'up')
    for network, gateway in NETWORKS:
        version, length = network.version, network.prefixlen
        namespaces.address(lab, links.ROUTER, ROUTER_PORT,
                           f'{gateway}/{length}')
        own = paths.hypervisor_address(NUMBER, version)
        run(lab, f'-{version}', 'address', 'add', f'{own}/{length}', 'dev',
            name, *(('nodad',) if version == 6 else ()))
    for network in BEHIND_ROUTER:
        gateway = next(gateway for one, gateway in NETWORKS
                       if one.version == network.version)
        run(lab, f'-{network.version}', 'route', 'replace', network, 'via',
            gateway, 'dev', name)


def disconnect(site):
    """Take the programs off; the cable goes with the router."""
    shutil.rmtree(pin_directory(site), ignore_errors=True)


def configure(site):
    """Write the agent's file."""
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
    """Words that start the agent."""
    return [site.program('octavia-xdp-host-agent'), '--config-file',
            _configuration(site)]


def _configuration(site):
    return site.lab.directory / 'octavia-xdp-host.conf'

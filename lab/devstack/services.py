# SPDX-License-Identifier: Apache-2.0
"""Services of the provider for DevStack's run_process."""

import shlex

from lab import paths
from lab.control import ini
from lab.devstack import hypervisor
from lab.devstack import site as sites
from lab.fabric import nodes
from lab.fabric import router
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import exabgp_config
from octavia_xdp_provider.controller import broker

CONTROLLER = 'o-xdp-ctl'
# kind of a node's service → the lab's name of the process
KINDS = {
    'agent': nodes.AGENT,
    'handler': nodes.RESULT_HANDLER,
    'hc': nodes.HEALTH_CHECKER,
    'exabgp': nodes.EXABGP,
}


def configure_nodes(site):
    """Write the configuration files of this host's LB nodes and host agent."""
    for node in site.nodes:
        _configure(site, node)
        _configure_exabgp(site, node)
    hypervisor.configure(site)


def commands(site):
    """Return [(service, user, command line)] in the order of their start."""
    services = []
    if site.role == sites.ALL:
        services.append((CONTROLLER, site.user, shlex.join([
            str(site.program('octavia-xdp-controller')), '--config-file',
            str(site.configuration)])))
    for node in site.nodes:
        node_commands = _commands(site, node)
        # Programs of a node run as root, the owner of its maps.
        services += [(f'o-xdp-{kind}-{node}', 'root', shlex.join(
            ['/usr/bin/nsenter', f'--net=/run/netns/'
             f'{site.lab.namespace(node)}', '--',
             *(str(word) for word in node_commands[kind])]))
            for kind in KINDS]
    if site.hypervisor:
        services.append((hypervisor.SERVICE, 'root', shlex.join(
            str(word) for word in hypervisor.command(site))))
    return services


def _configure(site, node):
    lab, name = site.lab, broker.node_vhost(node)
    ini.write(nodes.configuration(lab, node), {
        'DEFAULT': {
            'host': node,
            'transport_url': site.transport_url(name, name),
            'use_stderr': True,
            'debug': site.value('OCTAVIA_XDP_DEBUG'),
        },
    }, nodes.own_options(lab, node), {
        'members': {'allowed_networks':
                    site.value('OCTAVIA_XDP_MEMBER_NETWORKS')}},
        hypervisor.node_options(site))


def _configure_exabgp(site, node):
    own, next_hop = paths.uplink_addresses(paths.number(node))
    run = nodes.run_directory(site.lab, node)
    _exabgp_file(site, node).write_text(exabgp_config.render(
        own,
        [exabgp_config.Neighbour(
            local_address=own, local_as=router.NODE_ASN,
            peer_address=next_hop, peer_as=router.ASN,
            hold_time=router.HOLD_TIME,
            families=('ipv4 unicast', 'ipv6 unicast'))],
        [str(site.program('octavia-xdp-announcer')), '--file',
         str(run / announcements.FILE_NAME),
         '--network', str(paths.VIP_NETWORK),
         '--network', str(paths.VIP_NETWORK_V6)]))


def _commands(site, node):
    configuration = nodes.configuration(site.lab, node)
    run = nodes.run_directory(site.lab, node)
    environment = {**exabgp_config.ENVIRONMENT, 'exabgp_daemon_user': 'root'}
    return {
        'agent': [site.program('octavia-xdp-agent'),
                  '--config-file', configuration],
        'handler': [site.program('octavia-xdp-result-handler'),
                    '--config-file', configuration],
        'hc': [site.value('OCTAVIA_XDP_HC'), 'run', '--checks',
               run / 'checks', '--queue', run / 'queue',
               '--socket', run / 'hc.sock'],
        'exabgp': ['/usr/bin/env', *(f'{name}={value}' for name, value
                                     in environment.items()),
                   site.program('exabgp'), _exabgp_file(site, node)],
    }


def _exabgp_file(site, node):
    return site.lab.host_directory(node) / 'exabgp.conf'

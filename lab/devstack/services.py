# SPDX-License-Identifier: Apache-2.0
"""Services of the provider for DevStack's run_process."""

import shlex

from lab.control import ini
from lab.devstack import hypervisor
from lab.devstack import site as sites
from lab.fabric import nodes
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
        nodes.configure_exabgp(site.lab, node,
                               site.program('octavia-xdp-announcer'))
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
                   site.program('exabgp'),
                   nodes.exabgp_configuration(site.lab, node)],
    }

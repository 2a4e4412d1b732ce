# SPDX-License-Identifier: Apache-2.0
"""Agents of hypervisors, and related options of controllers and LB nodes.

LB nodes reach the first hypervisor by SRv6 and the second by Geneve, so that
tests of members test both.
"""

import json

from lab import paths
from lab import processes
from lab.control import ini
from lab.control import octavia
from lab.control import rabbitmq
from lab.fabric import links
from lab.ovn import hypervisors
from lab.ovn import ovsdb

AGENT = 'host-agent'
METRICS_PORT = 9107
# {hypervisor: encapsulation}
ENCAPSULATIONS = {'hv1': 'srv6', 'hv2': 'geneve'}

CONTROLLER_OPTIONS = {'zero_touch': {
    'mode': 'preferred',
    'member_networks': paths.TENANT_NETWORKS,
    'node_networks': f'{paths.UPLINK_NETWORK},{paths.UPLINK_NETWORK_V6}',
    'host_networks': (f'{paths.HYPERVISOR_NETWORK},'
                      f'{paths.HYPERVISOR_NETWORK_V6},{paths.SID_NETWORK},'
                      f'{paths.UNDERLAY_NETWORK_V6}'),
}}
# Nodes without this option do not get members behind tunnels.
NODE_OPTIONS = {'agent': {'probe_through_datapath': True}}


def name(hypervisor):
    """Return the name of a hypervisor's agent in the lab."""
    return hypervisors.process(hypervisor, AGENT)


def configuration(lab, hypervisor):
    """Return the configuration file of a hypervisor's agent."""
    return lab.host_directory(hypervisor) / 'octavia-xdp-host.conf'


def pin_directory(lab, hypervisor):
    """Return the directory of the agent's pinned maps and programs."""
    return hypervisors.bpf_directory(lab, hypervisor) / 'octavia-xdp-host'


def configure(lab, hypervisor):
    """Register a hypervisor, and write its agent's configuration file."""
    octavia.register_hypervisor(lab, hypervisor)
    write_configuration(lab, hypervisor, ENCAPSULATIONS[hypervisor])


def write_configuration(lab, hypervisor, encapsulation, underlay=links.UPLINK,
                        **options):
    """Write the agent's configuration file.

    :param underlay: the interface at which LB nodes' packets arrive. Answers
        always leave by the uplink.
    :param options: more options of [host_agent].
    """
    ini.write(configuration(lab, hypervisor), {
        'DEFAULT': {
            'host': hypervisor,
            'transport_url': rabbitmq.hypervisor_url(lab, hypervisor),
            'use_stderr': True,
            'debug': True,
        },
        'oslo_messaging_rabbit': rabbitmq.tls_options(lab),
        'host_agent': {
            'underlay_interfaces': underlay,
            'reply_interface': links.UPLINK,
            'encapsulations': encapsulation,
            'sid_prefix': paths.sid_network(paths.number(hypervisor)),
            'ovsdb': f'unix:{ovsdb.Host(lab, hypervisor).socket("db")}',
            'run_directory': lab.run_directory / hypervisor / 'agent',
            'library': paths.HOST_LIBRARY,
            'pin_directory': pin_directory(lab, hypervisor),
            'listen': (f'{paths.management_address(hypervisor)}:'
                       f'{METRICS_PORT}'),
            **options,
        },
    })


def start(lab, hypervisor):
    """Start a hypervisor's agent; it needs Open vSwitch's database."""
    processes.start(
        lab, hypervisor, name(hypervisor),
        [paths.VENV / 'bin' / 'octavia-xdp-host-agent', '--config-file',
         configuration(lab, hypervisor)])


def command(lab, hypervisor, *words, check=True):
    """Run octavia-xdp-host on a hypervisor, and return its parsed JSON.

    :param check: False for "verify", which returns 1 if it found faults.
    """
    done = processes.run(
        lab, hypervisor,
        [paths.VENV / 'bin' / 'octavia-xdp-host', '--config-file',
         configuration(lab, hypervisor), *words, '-f', 'json'],
        check=False)
    if done.returncode not in ((0,) if check else (0, 1)):
        raise paths.LabError(f'octavia-xdp-host {" ".join(words)} on '
                             f'{hypervisor}: {done.stderr or done.stdout}')
    return json.loads(done.stdout)


def show(lab, hypervisor, subject):
    """Return rows of a hypervisor's datapath as dictionaries."""
    return command(lab, hypervisor, 'show', subject)


def entries_of(lab, vip, port):
    """Return a listener's entries, as {hypervisor: rows}."""
    endpoint = f'[{vip}]:{port}' if ':' in vip else f'{vip}:{port}'
    return {hypervisor: [row for row in show(lab, hypervisor, 'entries')
                         if row['vip'] == endpoint]
            for hypervisor in hypervisors.NAMES}


def faults(lab, hypervisor):
    """Return the differences between a hypervisor's actual and wanted state.
    """
    return command(lab, hypervisor, 'verify', check=False)['faults']


def programs(lab, hypervisor, pattern):
    """Return pins of programs at interfaces: nic-…, tap-in-…, tap-out-…"""
    return sorted((pin_directory(lab, hypervisor) / 'links').glob(pattern))

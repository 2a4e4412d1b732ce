# SPDX-License-Identifier: Apache-2.0
"""LB nodes: an uplink to the router, a management link, four processes."""

from lab import namespaces
from lab import paths
from lab import processes
from lab.control import ini
from lab.control import octavia
from lab.control import rabbitmq
from lab.fabric import links
from lab.fabric import router
from octavia_xdp_provider.agent.bgp import announcements
from octavia_xdp_provider.agent.bgp import exabgp_config

EXABGP = 'exabgp'
AGENT = 'agent'
RESULT_HANDLER = 'result-handler'
HEALTH_CHECKER = 'hc'
# In the order of their start.
PROCESSES = (AGENT, RESULT_HANDLER, HEALTH_CHECKER, EXABGP)

SERVICES_MAX = 64

# Ports for Prometheus, on all addresses of the node.
METRICS_PORTS = {AGENT: 9105, RESULT_HANDLER: 9106, HEALTH_CHECKER: 9108}


def name(node, process):
    """Return the name of a node's process in the lab."""
    return f'{node}-{process}'


def address(node, version=4):
    """Return the node's address on its uplink."""
    return paths.uplink_addresses(paths.number(node), version)[0]


def run_directory(lab, node):
    """Return the run directory of the node's processes."""
    return lab.run_directory / node


def pin_directory(lab, node):
    """Return the directory of the node's pinned BPF maps and programs."""
    return run_directory(lab, node) / 'bpf' / 'octavia-xdp'


def configuration(lab, node):
    """Return the configuration file of agent and result handler."""
    return lab.host_directory(node) / 'octavia-xdp.conf'


def create(lab, node):
    """Create the node and its links, without processes."""
    own, next_hop = paths.uplink_addresses(paths.number(node))
    namespaces.create(lab, node)
    links.open_paths(lab, node)
    links.connect(lab, node, links.FABRIC_MTU)
    namespaces.address(lab, node, links.UPLINK, f'{own}/30')
    namespaces.address(lab, links.ROUTER, node, f'{next_hop}/30')
    own_v6, next_hop_v6 = paths.uplink_addresses(paths.number(node), 6)
    namespaces.address(lab, node, links.UPLINK, f'{own_v6}/126')
    namespaces.address(lab, links.ROUTER, node, f'{next_hop_v6}/126')
    links.receive_at_once(lab, links.ROUTER, node)
    _default_routes(lab, node)
    addresses = {'uplink': own}
    if namespaces.exists(lab, paths.CONTROL):
        addresses['management'] = namespaces.join_management(lab, node)
    lab.state.put('addresses', node, addresses)
    _mount_bpf(lab, node)


def register(lab, node):
    """Register the node, if the lab has the controllers' database."""
    if (namespaces.exists(lab, paths.CONTROL)
            and octavia.provider_configuration(lab).exists()):
        octavia.register_node(lab, node)


def configure(lab, node, options=None):
    """Write the configuration files.

    `options` is a dictionary, section → option → value, that adds to the
    node's octavia-xdp.conf or overrides it.
    """
    ini.write(configuration(lab, node), {
        'DEFAULT': {
            'host': node,
            'transport_url': rabbitmq.node_url(lab, node),
            'use_stderr': True,
            'debug': True,
        },
        'oslo_messaging_rabbit': rabbitmq.tls_options(lab),
        'agent': {'listen': _metrics(AGENT),
                  'result_handler_metrics': _metrics(RESULT_HANDLER)},
    }, own_options(lab, node), options or {})


def own_options(lab, node):
    """Return options of a node that follow from the fabric."""
    return {
        'vip': {'allowed_networks': paths.VIP_NETWORKS},
        'members': {'allowed_networks': paths.MEMBER_NETWORKS},
        'agent': {
            'run_directory': run_directory(lab, node),
            'uplinks': links.UPLINK,
            # The IPv4 session announces both families.
            'next_hop_v6': address(node, 6),
        },
        'datapath': {
            'library': paths.LIBRARY,
            'pin_directory': pin_directory(lab, node),
            'services_max': SERVICES_MAX,
        },
    }


def nat_options(node):
    """Return options that enable NAT on a node; see `configure`."""
    return {'nat': {'pools': ','.join(
        paths.nat_pools(paths.number(node)))}}


def configure_exabgp(lab, node, announcer=None):
    """Write exabgp.conf.

    :param announcer: octavia-xdp-announcer, if not that of this Python.
    """
    own, next_hop = paths.uplink_addresses(paths.number(node))
    exabgp_configuration(lab, node).write_text(exabgp_config.render(
        own,
        [exabgp_config.Neighbour(
            local_address=own, local_as=router.NODE_ASN,
            peer_address=next_hop, peer_as=router.ASN,
            hold_time=router.HOLD_TIME,
            families=('ipv4 unicast', 'ipv6 unicast'))],
        [str(announcer or _program('octavia-xdp-announcer')), '--file',
         str(run_directory(lab, node) / announcements.FILE_NAME),
         '--network', str(paths.VIP_NETWORK),
         '--network', str(paths.VIP_NETWORK_V6),
         *(word for pool in paths.nat_pools(paths.number(node))
           for word in ('--network', pool))]))


def start(lab, node, *wanted):
    """Start processes of a node, all by default."""
    commands = {
        AGENT: ([_program('octavia-xdp-agent'), '--config-file',
                 configuration(lab, node)], {}),
        RESULT_HANDLER: ([_program('octavia-xdp-result-handler'),
                          '--config-file', configuration(lab, node)], {}),
        HEALTH_CHECKER: ([paths.HEALTH_CHECKER, 'run',
                          '--checks',
                          run_directory(lab, node) / 'checks',
                          '--queue', run_directory(lab, node) / 'queue',
                          '--socket', run_directory(lab, node) / 'hc.sock',
                          '--metrics', _metrics(HEALTH_CHECKER),
                          # For tests that enable probe_through_datapath.
                          '--marks'],
                         {}),
        EXABGP: ([_program('exabgp'), exabgp_configuration(lab, node)],
                 {**exabgp_config.ENVIRONMENT, 'exabgp_daemon_user': 'root'}),
    }
    for process in wanted or PROCESSES:
        argv, environment = commands[process]
        processes.start(lab, node, name(node, process), argv, environment)


def stop(lab, node, *wanted):
    """Terminate processes of a node, all by default.

    ExaBGP is the first: when it closes its session, the router uses the other
    nodes at once.
    """
    for process in wanted or reversed(PROCESSES):
        processes.stop(lab, name(node, process))


def kill(lab, node, *wanted):
    """Kill processes of a node, all by default."""
    for process in wanted or PROCESSES:
        if processes.alive(lab, name(node, process)):
            processes.kill(lab, name(node, process))


def restart(lab, node, *wanted):
    """Restart processes of a node, all by default."""
    for process in wanted or PROCESSES:
        processes.restart(lab, name(node, process))


def _metrics(process):
    return f'0.0.0.0:{METRICS_PORTS[process]}'


def _default_routes(lab, node):
    for version in (4, 6):
        _own, next_hop = paths.uplink_addresses(paths.number(node), version)
        namespaces.route(lab, node, 'default', via=next_hop)


def _mount_bpf(lab, node):
    directory = run_directory(lab, node) / 'bpf'
    directory.mkdir(parents=True)
    processes.run(lab, None,
                  ['mount', '-t', 'bpf', '-o', 'mode=0700', 'bpf', directory])


def exabgp_configuration(lab, node):
    """Return the path of exabgp.conf."""
    return lab.host_directory(node) / 'exabgp.conf'


def _program(program):
    return paths.VENV / 'bin' / program

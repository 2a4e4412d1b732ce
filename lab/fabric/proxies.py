# SPDX-License-Identifier: Apache-2.0
"""Proxy nodes, as an operator builds them: each has two network namespaces.

    proxy1    management: launcher and agent, which reach the broker
    traffic1  uplink: HAProxy processes and the health checker

No link joins the two. The launcher and the agent are in the first one, and
the launcher starts HAProxy in the second one.
"""

import contextlib
import json
import os
import pathlib

from lab import namespaces
from lab import parallel
from lab import paths
from lab import processes
from lab import progress
from lab.control import ini
from lab.control import octavia
from lab.control import rabbitmq
from lab.fabric import links
from octavia_xdp_provider.proxy.launcher import cgroups

NAMES = tuple(f'proxy{number}' for number in range(1, 5))
# The bridge of their uplinks, on the router.
SWITCH = 'proxies'

LAUNCHER = 'launcher'
AGENT = 'agent'
HEALTH_CHECKER = 'hc'
# In the order of their start.
PROCESSES = (LAUNCHER, AGENT, HEALTH_CHECKER)

# LB nodes without this option are not given members behind tunnels, as which
# they reach proxy nodes.
NODE_OPTIONS = {'agent': {'probe_through_datapath': True}}

# Programs of the machine that the other hosts of a lab do not need.
PROGRAMS = ('haproxy', 'nft')
METRICS_PORTS = {AGENT: 9109, LAUNCHER: 9110, HEALTH_CHECKER: 9108}
# Of HAProxy processes on a node, one for each load balancer. Nodes of all labs
# of this machine have ranges of their own: a launcher refuses a uid in use.
_UIDS, _FIRST_UID, _RANGES = 100, 1_000_000_000, 2**22


def name(node, process):
    """Return the name of a proxy node's process in the lab."""
    return f'{node}-{process}'


def traffic(node):
    """Return the host that is the traffic namespace of a proxy node."""
    return f'traffic{paths.number(node)}'


def address(node, version=4):
    """Return the address of a proxy node, to which LB nodes send."""
    return paths.proxy_address(paths.number(node), version)


def run_directory(lab, node):
    """Return the run directory of the processes of a proxy node."""
    return lab.run_directory / node


def configuration(lab, node):
    """Return the configuration file of agent and launcher."""
    return lab.host_directory(node) / 'octavia-xdp.conf'


def names(lab):
    """Return the proxy nodes that the lab has."""
    return [node for node in NAMES if namespaces.exists(lab, node)]


def make(lab, number):
    """Create so many proxy nodes, without processes."""
    if not number:
        return
    with progress.step('making the proxy nodes'):
        namespaces.bridge(lab, links.ROUTER, SWITCH)
        links.set_mtu(lab, links.ROUTER, SWITCH, links.FABRIC_MTU)
        for network, gateway in (
                (paths.PROXY_NETWORK, paths.PROXY_GATEWAY),
                (paths.PROXY_NETWORK_V6, paths.PROXY_GATEWAY_V6)):
            namespaces.address(lab, links.ROUTER, SWITCH,
                               f'{gateway}/{network.prefixlen}')
        parallel.together(*(lambda node=node: create(lab, node)
                            for node in NAMES[:number]))


def start_all(lab, options=None):
    """Register the proxy nodes of the lab, and start their processes.

    `options` go into each node's octavia-xdp.conf.
    """
    nodes = names(lab)
    if not nodes:
        return
    with progress.step('starting the proxy nodes'):
        for node in nodes:
            configure(lab, node, options)
            register(lab, node)
            start(lab, node)


def create(lab, node):
    """Create the namespaces of a proxy node and its links."""
    namespaces.create(lab, node)
    management = namespaces.join_management(lab, node)
    host = traffic(node)
    namespaces.create(lab, host)
    links.open_paths(lab, host)
    # VIPs must not be announced to the neighbours.
    namespaces.sysctl(lab, host, net__ipv4__conf__all__arp_ignore=1,
                      net__ipv4__conf__all__arp_announce=2)
    links.connect(lab, host, links.FABRIC_MTU)
    namespaces.join_bridge(lab, links.ROUTER, SWITCH, host)
    for version, network in ((4, paths.PROXY_NETWORK),
                             (6, paths.PROXY_NETWORK_V6)):
        namespaces.address(lab, host, links.UPLINK,
                           f'{address(node, version)}/{network.prefixlen}')
    links.default_route(lab, host, paths.PROXY_GATEWAY,
                        paths.PROXY_GATEWAY_V6)
    _decapsulate(lab, host)
    lab.state.put('addresses', node, {'management': management})
    lab.state.put('addresses', host, {'uplink': address(node)})


def _decapsulate(lab, host):
    """Accept packets of LB nodes for all VIPs, and hand on those of
    connections that another proxy node has."""
    words = [links.DECAPSULATE, 'setup']
    for option, networks in (
            ('--vip-network', (paths.VIP_NETWORK, paths.VIP_NETWORK_V6)),
            ('--node', (paths.UPLINK_NETWORK, paths.UPLINK_NETWORK_V6)),
            ('--member', (paths.PROXY_NETWORK, paths.PROXY_NETWORK_V6))):
        for network in networks:
            words += [option, str(network)]
    processes.run(lab, host, [*words, links.UPLINK])
    # Packets that are handed on are sent by XDP.
    links.receive_at_once(lab, links.ROUTER, host)


def register(lab, node):
    """Register a proxy node, which already has credentials, and its public
    key."""
    (lab.host_directory(node) / 'state').mkdir(mode=0o700, exist_ok=True)
    key = processes.run(lab, node, [
        _program('octavia-xdp-proxy-agent'), '--config-file',
        configuration(lab, node), '--public-key']).stdout.strip()
    octavia.manage(lab, 'node', 'create', node, '--role', 'proxy',
                   '--address', address(node), '--address', address(node, 6),
                   '--public-key', key)


def configure(lab, node, options=None):
    """Write the configuration file.

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
    }, own_options(lab, node), options or {})


def own_options(lab, node):
    """Return options of a node that follow from the fabric."""
    first = _first_uid(lab, node)
    return {
        'vip': {'allowed_networks': paths.VIP_NETWORKS},
        'members': {'allowed_networks': paths.MEMBER_NETWORKS},
        'proxy': {
            'run_directory': run_directory(lab, node),
            'state_directory': lab.host_directory(node) / 'state',
            'namespace': lab.namespace(traffic(node)),
            'cgroup': _cgroup(lab, node),
            'limits': has_limits(),
            'number_min': first, 'number_max': first + _UIDS - 1,
            # Each takes three open files, of which containers have few.
            'connections': 1000,
            # Tests wait until HAProxy processes have ended.
            'stop_after': 30,
            'listen': _metrics(AGENT),
            'launcher_listen': _metrics(LAUNCHER),
        },
    }


def _first_uid(lab, node):
    place = (int(lab.id, 16) * len(NAMES) + paths.number(node)) % _RANGES
    return _FIRST_UID + _UIDS * place


def has_limits():
    """Return whether this machine has cgroups that can limit HAProxy.

    Its controllers may belong to cgroups of version 1, as in many containers.
    """
    try:
        listed = (cgroups.mounted() / 'cgroup.controllers').read_text()
        return cgroups.CONTROLLERS.issubset(listed.split())
    except (cgroups.Unusable, OSError):
        return False


def start(lab, node, *wanted):
    """Start processes of a proxy node, all by default."""
    run = run_directory(lab, node)
    run.mkdir(exist_ok=True)
    health = run / 'health'
    (health / 'queue').mkdir(parents=True, exist_ok=True)
    commands = {
        LAUNCHER: (node, [_program('octavia-xdp-proxy-launcher'),
                          '--config-file', configuration(lab, node)]),
        AGENT: (node, [_program('octavia-xdp-proxy-agent'), '--config-file',
                       configuration(lab, node)]),
        HEALTH_CHECKER: (traffic(node), [
            paths.HEALTH_CHECKER, 'run', '--checks', health / 'checks',
            '--queue', health / 'queue', '--socket', health / 'hc.sock',
            '--metrics', _metrics(HEALTH_CHECKER)]),
    }
    for process in wanted or PROCESSES:
        host, argv = commands[process]
        processes.start(lab, host, name(node, process), argv)


def stop(lab, node, *wanted):
    """Terminate processes of a proxy node, all by default. HAProxy goes on.
    """
    for process in wanted or reversed(PROCESSES):
        processes.stop(lab, name(node, process))


def lose(lab, node):
    """Let a proxy node lose its power: all ends at once, and its switch port
    is down."""
    _set_port(lab, node, 'down')
    for process in PROCESSES:
        if processes.alive(lab, name(node, process)):
            processes.kill(lab, name(node, process))
    namespaces.kill_all(lab, traffic(node))


def restore(lab, node):
    """Let a proxy node return that was lost, or processes that have ended."""
    _set_port(lab, node, 'up')
    for process in PROCESSES:
        if not processes.alive(lab, name(node, process)):
            start(lab, node, process)


def _set_port(lab, node, state):
    with namespaces.link(lab, links.ROUTER) as netlink:
        netlink.link('set', state=state, index=namespaces.index(
            netlink, traffic(node)))


def states(lab, node):
    """Return load balancer → what runs of it, as the launcher writes it."""
    return {path.stem: json.loads(path.read_text())
            for path in (run_directory(lab, node) / 'state').glob('*.json')}


def processes_of(lab, node):
    """Return load balancer → ids of all its HAProxy processes."""
    result = {}
    for path in _groups(lab, node).glob('*/*/cgroup.procs'):
        with contextlib.suppress(OSError):
            pids = {int(pid) for pid in path.read_text().split()}
            if pids:
                result.setdefault(path.parts[-3], set()).update(pids)
    return result


def remove_groups(lab):
    """Remove the cgroups of a lab whose processes have ended."""
    with contextlib.suppress(cgroups.Unusable):
        for node in NAMES:
            for directory, _, _ in os.walk(_groups(lab, node),
                                           topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)


def _groups(lab, node):
    return pathlib.Path(f'{cgroups.mounted()}{_cgroup(lab, node)}')


def _cgroup(lab, node):
    return f'/{lab.prefix}{node}'


def _metrics(process):
    return f'127.0.0.1:{METRICS_PORTS[process]}'


def _program(program):
    return paths.VENV / 'bin' / program

# SPDX-License-Identifier: Apache-2.0
"""Options of a proxy node."""

from oslo_config import cfg

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.contracts import flavor

GROUP = 'proxy'

# OXP_TOKEN_NETWORKS_MAX (datapath/include/octavia_xdp.h).
TOKEN_NETWORKS_MAX = 16

# Ranges of uids that systemd gives away by itself: of homes, and of services
# with DynamicUser.
_FOREIGN = ((60001, 60513), (61184, 65519))


def _overridable(name: str, default: int, text: str) -> cfg.IntOpt:
    lowest, highest = flavor.PROXY_RANGES[f'proxy_{name}']
    return cfg.IntOpt(name, default=default, min=lowest, max=highest,
                      help=f'{text} The flavor key proxy_{name} takes its '
                           'place.')


proxy_opts = [
    cfg.StrOpt('run_directory',
               default='/run/octavia-xdp-proxy',
               help='Directory by which the launcher of HAProxy processes is '
                    'told what to run, and says what runs. It must belong to '
                    'root; only its subdirectories "wanted" and "secrets" '
                    'belong to the agent.'),
    cfg.StrOpt('state_directory',
               default='/var/lib/octavia-xdp-proxy',
               help='Directory of the agent\'s own files: the last state '
                    'received from a controller, which the agent uses while '
                    'no controller answers, including after a restart, and '
                    'the number of each load balancer.'),
    cfg.StrOpt('haproxy',
               default='/usr/sbin/haproxy',
               help='The program, HAProxy 2.6 or later. After an update of '
                    'it, a running process uses the new one from its next '
                    'change of configuration on.'),
    cfg.StrOpt('namespace',
               default='octavia-xdp-proxy',
               help='Name of the network namespace, as of "ip netns", in '
                    'which all HAProxy processes of the node run. It is made '
                    'if there is none; it has the network interfaces that '
                    'the operator puts there, and nothing of the node\'s '
                    'management is reachable from it. The launcher sets its '
                    'net.ipv4.ip_unprivileged_port_start, so that no HAProxy '
                    'can take a port by itself.'),
    cfg.IntOpt('number_min',
               default=70000, min=1000, max=2 ** 31 - 1,
               help='First uid of HAProxy processes. Each load balancer has '
                    'one of its own, which is its gid too. Nothing else of '
                    'the node may use the range; systemd uses 60001 to 60513 '
                    'and 61184 to 65519, and useradd gives users ranges from '
                    '100000 on (/etc/subuid).'),
    cfg.IntOpt('number_max',
               default=89999, min=1000, max=2 ** 31 - 1,
               help='Last uid of HAProxy processes.'),
    cfg.ListOpt('token_networks',
                default=[],
                help='Networks (CIDR) whose addresses stand for members '
                     'behind hypervisors: each member of a load balancer has '
                     'one of its own, of its IP version, to which HAProxy '
                     'connects, and which the proxy node takes through the '
                     'tunnel to the hypervisor. The same on controllers and '
                     'proxy nodes. Nothing else may have such addresses, and '
                     'the fabric must accept them as sources from '
                     'hypervisors, and route nothing to them. At most 16, '
                     'for example 100.64.0.0/10 and fd00:6464::/64. Empty: '
                     'proxy nodes reach members only at their own '
                     'addresses.'),
    cfg.StrOpt('cgroup',
               help='Cgroup below which each load balancer has one, as a path '
                    'from the root of the version 2 hierarchy. It is made if '
                    'there is none. Default: the cgroup that the launcher is '
                    'started in, which systemd must have delegated to it '
                    '(Delegate=yes); started in the root, it makes '
                    '/octavia-xdp-proxy.'),
    cfg.BoolOpt('limits',
                default=True,
                help='Whether each load balancer is held to its memory, '
                     'weight of CPU time and number of tasks, by the '
                     'controllers of cgroups of version 2. Without them the '
                     'launcher does not start. With false, a single load '
                     'balancer can use up the memory of the node.'),
    cfg.IntOpt('failed_starts',
               default=5, min=1, max=100,
               help='After so many starts in a row after which HAProxy dies '
                    'at once, its listening sockets are closed, so that the '
                    'load balancer is seen to be down. It is tried again at '
                    'intervals of half a minute.'),
    _overridable('connections', 20000,
                 'Maximum number of clients\' connections that a load '
                 'balancer has on this node at a time. Further ones wait '
                 'in the kernel\'s queue. A change replaces all HAProxy '
                 'processes.'),
    _overridable('threads', 1,
                 'Number of threads of each HAProxy process. A change '
                 'replaces all HAProxy processes.'),
    _overridable('memory', 1024,
                 'Maximum memory of a load balancer, in MiB, including '
                 'that of processes which end their last connections '
                 'after a change. A connection takes about 35 KiB, and '
                 'twice as much with TLS.'),
    cfg.IntOpt('cpu_weight',
               default=100, min=1, max=10000,
               help='Share of CPU time of each load balancer in relation to '
                    'others, as cpu.weight of cgroups.'),
    _overridable('stop_after', 3600,
                 'Seconds that a process which is replaced after a change '
                 'may serve the connections that it has.'),
    cfg.IntOpt('listeners_max',
               default=4096, min=1, max=65536,
               help='Number of listeners that the scheduler places on this '
                    'node at most.'),
    cfg.IntOpt('report_interval',
               default=5, min=1, max=10,
               help='Seconds between two full comparisons with the '
                    'controller, which repair whatever was lost. A change is '
                    'fetched at once.'),
    cfg.StrOpt('listen',
               help='Address and port, such as 127.0.0.1:9109, where the '
                    'agent answers GET /metrics (Prometheus) and GET '
                    '/healthcheck, without authentication. Default: it does '
                    'not listen.'),
    cfg.StrOpt('launcher_listen',
               help='Address and port, such as 127.0.0.1:9110, where the '
                    'launcher answers GET /metrics (Prometheus) and GET '
                    '/healthcheck, without authentication. Default: it does '
                    'not listen.'),
]


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse invalid values.

    :raises ConfigurationError: names the option.
    """
    tokens = option_values.networks(conf, GROUP, 'token_networks')
    if len(tokens) > TOKEN_NETWORKS_MAX:
        raise option_values.ConfigurationError(
            f'[{GROUP}] token_networks: {len(tokens)} networks, and at most '
            f'{TOKEN_NETWORKS_MAX} are possible')
    first, last = conf.proxy.number_min, conf.proxy.number_max
    if first > last:
        raise option_values.ConfigurationError(
            f'[{GROUP}] number_max: {last} is less than number_min, {first}')
    for low, high in _FOREIGN:
        if first <= high and low <= last:
            raise option_values.ConfigurationError(
                f'[{GROUP}] number_min: {first} to {last} contains uids that '
                f'systemd gives away, {low} to {high}')
    for name in ('run_directory', 'state_directory', 'haproxy'):
        if not conf.proxy[name].startswith('/'):
            raise option_values.ConfigurationError(
                f'[{GROUP}] {name}: {conf.proxy[name]!r} is not an absolute '
                'path')
    if '/' in conf.proxy.namespace or not conf.proxy.namespace.strip('.'):
        raise option_values.ConfigurationError(
            f'[{GROUP}] namespace: {conf.proxy.namespace!r} is no name')
    for name in ('listen', 'launcher_listen'):
        option_values.listening_address(conf, GROUP, name)

# SPDX-License-Identifier: Apache-2.0
"""Options of an LB node's agent, result handler and datapath."""

import ipaddress

from oslo_config import cfg

from octavia_xdp_provider.config import option_values

# OXP_UPLINKS_MAX of the datapath.
UPLINKS_MAX = 8

agent_opts = [
    cfg.StrOpt('run_directory',
               default='/run/octavia-xdp',
               help='Directory of the files that the processes of a node '
                    'exchange. It should be on a tmpfs, because a rebooted '
                    'node must announce nothing before its datapath is '
                    'loaded.'),
    cfg.ListOpt('uplinks',
                default=['eth0'],
                help='Network interfaces towards the fabric, at most 8. Flows '
                     'to members are spread over those that have a carrier '
                     'and a next hop that answers. The XDP program is '
                     'attached to each in driver mode; for a VLAN interface '
                     '(at most two tags), to the underlying device.'),
    cfg.ListOpt('gateways',
                default=[],
                help='Next hops of uplinks, as INTERFACE=ADDRESS, at most one '
                     'for each uplink and IP version. Default: the gateways '
                     'of the default routes through the uplinks.'),
    cfg.StrOpt('outer_source',
               help='IPv4 source address of encapsulated packets. Default: '
                    'the first address of the first uplink that has an IPv4 '
                    'address.'),
    cfg.StrOpt('outer_source_v6',
               help='IPv6 source address of encapsulated packets. Default: '
                    'the first global address of the first uplink that has '
                    'one.'),
    cfg.IntOpt('outer_entropy',
               default=0, min=0, max=16,
               help='Number of low bits of outer_source that vary from flow '
                    'to flow, so that routers, and the receive queues of '
                    'members and hypervisors, spread flows whose outer '
                    'headers would otherwise be equal. Set outer_source to an '
                    'address with as many trailing zero bits. The whole range '
                    'must belong to the node and pass the reverse path '
                    'filters on the way.'),
    cfg.IntOpt('outer_entropy_v6',
               default=0, min=0, max=32,
               help='The same for outer_source_v6.'),
    cfg.StrOpt('next_hop_v6',
               help='IPv6 next hop with which IPv6 VIPs are announced. '
                    'Required if they are announced over an IPv4 BGP session. '
                    'Default: the node\'s address in each session, which must '
                    'then be an IPv6 session.'),
    cfg.IntOpt('report_interval',
               default=5, min=1,
               help='Seconds between two full comparisons with the '
                    'controller, which repair whatever was lost. A change is '
                    'fetched at once.'),
    cfg.StrOpt('listen',
               help='Address and port, such as 127.0.0.1:9105, where the '
                    'agent answers GET /metrics (Prometheus) and GET '
                    '/healthcheck, without authentication. Default: it does '
                    'not listen.'),
    cfg.BoolOpt('load_balancer_metrics',
                default=True, mutable=True,
                help='Whether GET /metrics of the agent includes the traffic '
                     'of each listener: five series for each of its VIPs on '
                     'this node. Disable it if Prometheus cannot store that '
                     'many.'),
    cfg.StrOpt('result_handler_metrics',
               help='Address and port, such as 127.0.0.1:9106, where the '
                    'result handler answers GET /metrics (Prometheus) and GET '
                    '/healthcheck. Default: it does not listen.'),
    cfg.StrOpt('health_scope',
               default='pool',
               choices=[
                   ('pool', 'the monitor of the member\'s own pool decides, '
                    'as in Octavia'),
                   ('load_balancer', 'a monitored member is up if the '
                    'monitors of all pools that its load balancer uses and '
                    'that hold its address find it up (its address and '
                    'port, where the flavor has nodes write ports)')],
               help='Which health monitors decide whether a member takes '
                    'traffic.'),
    cfg.IntOpt('health_panic_percent',
               default=0, min=0, max=100,
               help='Panic threshold: while fewer than this percentage of a '
                    'pool\'s members are up or unknown, no further member is '
                    'marked down, because the node\'s own network is the more '
                    'likely fault. 0: disabled.'),
    cfg.BoolOpt('probe_through_datapath',
                default=False,
                help='Whether members are probed the way clients reach them: '
                     'at the VIP, inside the same encapsulation as traffic. A '
                     'member whose decapsulation is broken, or that does not '
                     'have the VIP, is then found down. A monitor\'s own '
                     'address or port is probed in addition. The health '
                     'checker must be allowed to mark packets '
                     '(OCTAVIA_XDP_HC_MARKS=1); see the administrator guide.'),
    cfg.FloatOpt('recheck_timeout',
                 default=10.0, min=0.0, max=3600.0,
                 help='After an outage of all uplinks, the maximum number of '
                      'seconds for which a VIP stays withdrawn until each of '
                      'its members has been probed again and no result is in '
                      'doubt. A node that announces earlier could send flows '
                      'to other members than the other nodes do. 0: announce '
                      'as soon as an uplink works.'),
    cfg.FloatOpt('withdraw_grace',
                 default=0.5, min=0.0, max=60.0, mutable=True,
                 help='Seconds between the withdrawal of a VIP and the '
                      'removal of its services, while the fabric still sends '
                      'packets.'),
]

_PIN = ('Controllers serve every version, so upgrade them first and keep the '
        'default. Set an older version only on ')

upgrade_opts = [
    cfg.StrOpt('driver',
               default='1.0', choices=['1.0'],
               help='Version of the interface to the controllers that the '
                    f'driver in octavia-api uses. {_PIN}a host of '
                    'octavia-api that is upgraded before them.'),
    cfg.StrOpt('nodes',
               default='1.0', choices=['1.0'],
               help='Version of the interface to the controllers that this '
                    f'LB node uses. {_PIN}a node that is upgraded before '
                    'them.'),
]

datapath_opts = [
    cfg.StrOpt('library',
               default='liboctavia_xdp.so.10',
               help='The datapath library: a name that the dynamic loader '
                    'finds, or a path. Its number is the layout of the '
                    'tables; see "octavia-xdp-ctl upgrade".'),
    cfg.StrOpt('pin_directory',
               default='/sys/fs/bpf/octavia-xdp',
               help='Directory on a bpffs for the pinned maps and programs.'),
    cfg.IntOpt('services_max',
               default=1024, min=1, max=65536,
               help='Maximum number of services (VIP, protocol, port) of this '
                    'node. Keys and counters are allocated for it at the '
                    'first start, tables as they are used; see the '
                    'administrator guide for the memory.'),
    cfg.IntOpt('members_max',
               default=0, min=0, max=2 ** 28,
               help='Maximum number of members of all services together. 0: '
                    '16 times services_max.'),
    cfg.IntOpt('slots',
               default=0, min=0, max=1048573,
               help='Slots of a Maglev table. All nodes must use the same '
                    'value: a prime for every pool, or 0, which gives each '
                    'pool enough slots to keep the members\' shares within '
                    'one per cent.'),
    cfg.IntOpt('flows_max',
               default=1048576, min=1024, max=2 ** 30,
               help='Number of flows, a power of two, that are remembered '
                    'while members come, go or change their weight. Each '
                    'takes 8 bytes, allocated at the first start. Nothing is '
                    'remembered while no change is in progress.'),
    cfg.StrOpt('next_hop',
               default='uplinks', choices=[
                   ('uplinks', 'An uplink\'s next hop, chosen by flow; '
                               'the agent keeps it fresh.'),
                   ('routes', 'The kernel\'s routes are asked for each '
                              'packet. Slower, for nodes where members are '
                              'reached through different next hops.')],
               help='Where encapsulated packets are sent.'),
    cfg.BoolOpt('echo_reply',
                default=True,
                help='Whether the node answers echo requests (ping) to VIPs. '
                     'Otherwise the kernel receives them, which does not have '
                     'the address.'),
    cfg.BoolOpt('clamp_mss',
                default=True,
                help='Whether the MSS option of clients\' TCP SYNs is lowered '
                     'to fit the path to the member with the outer header.'),
    cfg.StrOpt('fragmentable',
               default='drop', choices=[
                   ('drop', 'They are dropped and counted as '
                            'drop_too_big.'),
                   ('pass', 'They are left to the kernel and counted as '
                            'passed_too_big.')],
               help='What happens to IPv4 packets without DF that do not fit '
                    'the path to the member. Other packets that do not fit '
                    'are dropped, and the client is told the MTU by ICMP.'),
    cfg.IntOpt('icmp_rate',
               default=1000, min=0, max=2 ** 31 - 1,
               help='Maximum number of packets per second and CPU that the '
                    'node itself sends, for each of three kinds: echo '
                    'replies, ICMP and ICMPv6 messages about the MTU, and TCP '
                    'resets. One source (IPv6: a /64) gets at most an eighth '
                    'of it. 0: none.'),
    cfg.IntOpt('member_mtu',
               default=0, min=0, max=65535,
               help='Largest packet, in bytes and with the outer header, that '
                    'reaches members: 0, or at least 1280. With 0 the agent '
                    'uses the MTU of the kernel\'s route to each member, '
                    'including one that path MTU discovery has found, or else '
                    'that of the uplink.'),
]


def gateways(conf: cfg.ConfigOpts) -> dict[tuple[str, int], str]:
    """Return [agent] gateways as {(interface, 4 or 6): address}.

    :raises ConfigurationError: an entry is invalid.
    """
    result: dict[tuple[str, int], str] = {}
    for text in conf.agent.gateways:
        interface, _equals, address = text.rpartition('=')
        try:
            version = option_values.host_address(address).version
        except ValueError as error:
            raise option_values.ConfigurationError(
                f'[agent] gateways: {error}') from error
        if interface not in conf.agent.uplinks:
            raise option_values.ConfigurationError(
                f'[agent] gateways: {text!r} does not begin with one of '
                '[agent] uplinks and "="')
        if (interface, version) in result:
            raise option_values.ConfigurationError(
                f'[agent] gateways: {interface} has two IPv{version} '
                'gateways')
        result[interface, version] = address
    return result


def _check_source(conf: cfg.ConfigOpts, name: str, version: int, entropy: str
                  ) -> None:
    """Check an outer source and its number of bits that vary by flow."""
    text, bits = conf.agent[name], conf.agent[entropy]
    if not text:
        if bits:
            raise option_values.ConfigurationError(
                f'[agent] {entropy}: needs [agent] {name}, whose low bits '
                'it changes')
        return
    option_values.check_address(conf, 'agent', name, version)
    if int(ipaddress.ip_address(text)) & ((1 << bits) - 1):
        raise option_values.ConfigurationError(
            f'[agent] {name}: the last {bits} bits of {text} must be zero, '
            f'because [agent] {entropy} is {bits}')


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse values that cannot be used together.

    :raises ConfigurationError: names the option.
    """
    uplinks = conf.agent.uplinks
    if not 1 <= len(uplinks) <= UPLINKS_MAX:
        raise option_values.ConfigurationError(
            f'[agent] uplinks: 1 to {UPLINKS_MAX} interfaces are possible')
    if len(set(uplinks)) < len(uplinks):
        raise option_values.ConfigurationError(
            '[agent] uplinks: an interface is there twice')
    gateways(conf)
    _check_source(conf, 'outer_source', 4, 'outer_entropy')
    _check_source(conf, 'outer_source_v6', 6, 'outer_entropy_v6')
    option_values.check_address(conf, 'agent', 'next_hop_v6', 6)
    if conf.datapath.flows_max.bit_count() != 1:
        raise option_values.ConfigurationError(
            '[datapath] flows_max: must be a power of two')
    if 0 < conf.datapath.member_mtu < 1280:
        raise option_values.ConfigurationError(
            '[datapath] member_mtu: must be 0 or at least 1280')

# SPDX-License-Identifier: Apache-2.0
"""Every configuration option of the provider, and how they are loaded.

The driver runs inside octavia-api, whose global ``oslo.config`` object holds
Octavia's own ``transport_url`` and ``database`` options. The provider must
not share them, so it always builds a ``ConfigOpts`` of its own from a file
of its own.
"""

import copy
import ipaddress
import os
import socket

from oslo_config import cfg
from oslo_db import options as db_options
from oslo_log import log as logging

from octavia_xdp_provider.common import address_policy

CONFIG_ENVIRONMENT_VARIABLE = 'OCTAVIA_XDP_CONF'
DEFAULT_CONFIG_FILE = '/etc/octavia-xdp/octavia-xdp.conf'
# OXP_UPLINKS_MAX of the datapath.
UPLINKS_MAX = 8
DEFAULT_DATABASE = 'sqlite:////var/lib/octavia-xdp/octavia-xdp.sqlite'

default_opts = [
    cfg.StrOpt('host',
               default=socket.gethostname(),
               sample_default='<hostname>',
               help='Name of this machine: the name under which an LB node '
                    'is known to the controller, and must be unique.'),
]

driver_opts = [
    cfg.IntOpt('request_timeout',
               default=30, min=1,
               help='Seconds that an API request waits for the controller '
                    'before it fails with an error and nothing changed.'),
]

vip_opts = [
    cfg.ListOpt('allowed_networks',
                default=[],
                help='Networks (CIDR) inside which VIPs may be announced into '
                     'the fabric. A load balancer with any other VIP is '
                     'refused by the driver, and again by each node. Empty: '
                     'every load balancer is refused, because a tenant '
                     'could otherwise announce any address as his own.'),
]

member_opts = [
    cfg.ListOpt('denied_networks',
                default=['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16',
                         '224.0.0.0/4', '240.0.0.0/4',
                         '::/128', '::1/128', 'fe80::/10', 'ff00::/8'],
                help='Networks (CIDR) in which no member and no monitor '
                     'address may lie. Health checks and forwarded packets '
                     'come from the LB nodes, so that a tenant could '
                     'otherwise reach the operator\'s own network: add it '
                     'here.'),
]

placement_opts = [
    cfg.IntOpt('replicas',
               default=2, min=1,
               help='Number of LB nodes that a VIP is placed on, unless the '
                    'flavor says otherwise. With fewer nodes in service it '
                    'is placed on those and spread further when more '
                    'appear.'),
    cfg.IntOpt('node_timeout',
               default=15, min=2,
               help='Seconds without a report after which an LB node counts '
                    'as dead: no status waits for it, and its VIPs are '
                    'placed on other nodes where there are any.'),
]

controller_opts = [
    cfg.IntOpt('status_timeout',
               default=60, min=5,
               help='Seconds after which a change that no live node has '
                    'confirmed ends in ERROR. It becomes ACTIVE as soon as '
                    'a node confirms it.'),
    cfg.IntOpt('confirm_timeout',
               default=90, min=5,
               help='Seconds that the controller waits for Octavia to commit '
                    'what its driver has announced. After that Octavia\'s '
                    'database is right: what it does not hold is removed, '
                    'what differs is replaced. Must be larger than '
                    '[driver] request_timeout.'),
    cfg.IntOpt('resync_interval',
               default=60, min=5,
               help='Seconds between two comparisons of every load balancer '
                    'with Octavia and repeated statuses, which heal '
                    'whatever was lost in between.'),
    cfg.IntOpt('statistics_interval',
               default=10, min=1,
               help='Seconds between two messages of listener statistics to '
                    'Octavia.'),
    cfg.StrOpt('status_socket',
               default='/var/run/octavia/status.sock',
               help='Unix socket of octavia-driver-agent for statuses.'),
    cfg.StrOpt('stats_socket',
               default='/var/run/octavia/stats.sock',
               help='Unix socket of octavia-driver-agent for statistics.'),
    cfg.StrOpt('get_socket',
               default='/var/run/octavia/get.sock',
               help='Unix socket of octavia-driver-agent for look-ups.'),
]

agent_opts = [
    cfg.StrOpt('run_directory',
               default='/run/octavia-xdp',
               help='Directory of the files by which the processes of a node '
                    'work together. It should be on a tmpfs: a node that '
                    'was rebooted must announce nothing before its '
                    'datapath is loaded.'),
    cfg.ListOpt('uplinks',
                default=['eth0'], deprecated_name='uplink',
                help='Network interfaces towards the fabric, at most 8. '
                     'Flows to members are spread over those that have a '
                     'carrier and a next hop that answers. The XDP program '
                     'is attached in driver mode to each, or, where it is a '
                     'VLAN interface (at most two tags), to the device '
                     'below.'),
    cfg.ListOpt('gateways',
                default=[],
                help='Next hops of uplinks, as INTERFACE=ADDRESS, one for '
                     'each uplink and address family at most. Default: the '
                     'gateways of the default routes through the uplinks.'),
    cfg.StrOpt('outer_source',
               help='IPv4 address used as source of encapsulated packets. '
                    'Default: the first address of the first uplink that '
                    'has one.'),
    cfg.StrOpt('outer_source_v6',
               help='IPv6 address used as source of encapsulated packets. '
                    'Default: the first global address of the first uplink '
                    'that has one.'),
    cfg.IntOpt('outer_entropy',
               default=0, min=0, max=16,
               help='Number of low bits of outer_source that differ from '
                    'flow to flow, so that routers and the queues of members '
                    'and hypervisors spread flows that are otherwise '
                    'encapsulated alike. outer_source must be set and end '
                    'in that many zero bits; the whole range must be the '
                    'node\'s, and pass the reverse path filters on the way.'),
    cfg.IntOpt('outer_entropy_v6',
               default=0, min=0, max=32,
               help='The same for outer_source_v6.'),
    cfg.StrOpt('next_hop_v6',
               help='IPv6 address that is announced as next hop of IPv6 '
                    'VIPs. Needed where they are announced over an IPv4 BGP '
                    'session. Default: the node\'s address in each session, '
                    'which must then be an IPv6 session.'),
    cfg.IntOpt('report_interval',
               default=5, min=1,
               help='Seconds between two full comparisons with the '
                    'controller. A change is fetched at once; this heals '
                    'what was lost.'),
    cfg.StrOpt('result_handler_metrics',
               help='Address and port, as 127.0.0.1:9106, where the result '
                    'handler answers GET /metrics for Prometheus. Default: '
                    'nothing listens.'),
    cfg.StrOpt('health_scope',
               default='pool',
               choices=[
                   ('pool', 'the monitor of the member\'s own pool decides, '
                    'as in Octavia'),
                   ('load_balancer', 'a monitored member is up if the '
                    'monitors of all pools that its load balancer uses and '
                    'that hold its address find it up')],
               help='Which health monitors decide whether a member takes '
                    'traffic.'),
    cfg.IntOpt('health_panic_percent',
               default=0, min=0, max=100,
               help='While less than this percentage of a pool\'s members is '
                    'not down, no further member of it goes down: the last '
                    'set stays, because the fault is likelier to be the '
                    'node\'s own network. 0: never.'),
    cfg.BoolOpt('probe_through_datapath',
                default=False,
                help='Whether members are probed as clients reach them: at '
                     'the VIP, inside the encapsulation that traffic gets, '
                     'so that a member whose decapsulation is broken, or '
                     'that does not have the VIP, is found down. A monitor '
                     'with an address or port of its own is obeyed in '
                     'addition. The health checker must be allowed to mark '
                     'packets (OCTAVIA_XDP_HC_MARKS=1); see the '
                     'administrator guide.'),
    cfg.FloatOpt('withdraw_grace',
                 default=0.5, min=0.0, max=60.0,
                 help='Seconds between the withdrawal of a VIP and the '
                      'removal of its services, in which the fabric stops '
                      'sending packets.'),
]

datapath_opts = [
    cfg.StrOpt('library',
               default='liboctavia_xdp.so.3',
               help='The datapath library: a name that the dynamic loader '
                    'finds, or a path. Its number is the layout of the '
                    'tables: see "octavia-xdp-ctl upgrade".'),
    cfg.StrOpt('pin_directory',
               default='/sys/fs/bpf/octavia-xdp',
               help='Directory on a bpffs that holds the pinned maps and '
                    'programs.'),
    cfg.IntOpt('services_max',
               default=1024, min=1, max=65536,
               help='Greatest number of services (VIP, protocol, port) of '
                    'this node. The maps are allocated for it at first '
                    'start; see the administrator guide for the memory.'),
    cfg.IntOpt('slots',
               default=13313, min=3, max=1048573,
               help='Slots of a Maglev table: a prime, the same on all '
                    'nodes. 100 times the members of a pool keep shares '
                    'within one per cent.'),
    cfg.IntOpt('flows_max',
               default=1048576, min=1024, max=2 ** 30,
               help='Number of flows, a power of two, that are remembered '
                    'while members come, go or change their weight; 8 bytes '
                    'each, allocated at first start. With no change under '
                    'way nothing is remembered.'),
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
                     'Otherwise they are left to the kernel, which does not '
                     'have the address.'),
    cfg.BoolOpt('clamp_mss',
                default=True,
                help='Whether the MSS option of clients\' TCP SYNs is '
                     'lowered to what fits the path to the member with the '
                     'outer header.'),
    cfg.StrOpt('fragmentable',
               default='drop', choices=[
                   ('drop', 'They are dropped and counted as '
                            'drop_too_big.'),
                   ('pass', 'They are left to the kernel and counted as '
                            'passed_too_big.')],
               help='What happens to IPv4 packets that may be fragmented '
                    '(without DF) and do not fit the path to the member. '
                    'Other packets that do not fit are dropped, and the '
                    'client is told the MTU.'),
    cfg.IntOpt('icmp_rate',
               default=1000, min=0, max=2 ** 31 - 1,
               help='ICMP and ICMPv6 packets per second and CPU that the '
                    'node makes itself: echo replies and those that name an '
                    'MTU. 0: none.'),
    cfg.IntOpt('member_mtu',
               default=0, min=0, max=65535,
               help='Greatest packet, in bytes with the outer header, that '
                    'reaches members; 0, or at least 1280. With 0 the agent '
                    'takes the MTU of the kernel\'s route to each member, '
                    'also one that the kernel has learnt, and that of the '
                    'uplink where there is none.'),
]

GROUPS = {
    'DEFAULT': default_opts,
    'driver': driver_opts,
    'vip': vip_opts,
    'members': member_opts,
    'placement': placement_opts,
    'controller': controller_opts,
    'agent': agent_opts,
    'datapath': datapath_opts,
}


class ConfigurationError(Exception):
    """A configuration file holds a value that cannot be used."""


def list_options():
    """Entry point of ``oslo.config.opts``, for the generated sample."""
    options = [(group, copy.deepcopy(opts))
               for group, opts in GROUPS.items()]
    database = copy.deepcopy(db_options.database_opts)
    cfg.set_defaults(database, connection=DEFAULT_DATABASE)
    return options + [('database', database)]


def networks(conf, group, name):
    """The option as a list of ``ipaddress`` networks.

    :raises ConfigurationError: an entry is not a network in CIDR notation.
    """
    result = []
    for text in conf[group][name]:
        try:
            result.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise ConfigurationError(
                f'[{group}] {name}: {error}') from error
    return result


def allowed_addresses(conf, own_addresses=frozenset()):
    """The operator's networks as an AddressPolicy.

    :param own_addresses: texts: those of this host, if it is an LB node.
    :raises ConfigurationError: a network cannot be read.
    """
    return address_policy.AddressPolicy(
        tuple(networks(conf, 'vip', 'allowed_networks')),
        tuple(networks(conf, 'members', 'denied_networks')),
        frozenset(own_addresses))


def gateways(conf):
    """[agent] gateways as {(interface, 4 or 6): address}.

    :raises ConfigurationError: an entry cannot be used.
    """
    result = {}
    for text in conf.agent.gateways:
        interface, _equals, address = text.rpartition('=')
        try:
            version = _one_address(address).version
        except ValueError as error:
            raise ConfigurationError(f'[agent] gateways: {error}') from error
        if interface not in conf.agent.uplinks:
            raise ConfigurationError(
                f'[agent] gateways: {text!r} does not begin with one of '
                '[agent] uplinks and "="')
        if (interface, version) in result:
            raise ConfigurationError(
                f'[agent] gateways: {interface} has two IPv{version} '
                'gateways')
        result[interface, version] = address
    return result


def _one_address(text):
    address = ipaddress.ip_address(text)
    if address.is_unspecified or address.is_multicast or address.is_loopback:
        raise ValueError(f'{text} is no address of a host')
    return address


def _check_source(conf, name, version, entropy):
    """An outer source and the bits of it that flows may change."""
    text, bits = conf.agent[name], conf.agent[entropy]
    if not text:
        if bits:
            raise ConfigurationError(
                f'[agent] {entropy}: needs [agent] {name}, whose low bits '
                'it changes')
        return
    _check_address(conf, name, version)
    if int(ipaddress.ip_address(text)) & ((1 << bits) - 1):
        raise ConfigurationError(
            f'[agent] {name}: the last {bits} bits of {text} must be zero, '
            f'because [agent] {entropy} is {bits}')


def _check_address(conf, name, version):
    text = conf.agent[name]
    if not text:
        return
    try:
        found = _one_address(text).version
    except ValueError as error:
        raise ConfigurationError(f'[agent] {name}: {error}') from error
    if found != version:
        raise ConfigurationError(
            f'[agent] {name}: {text} is not an IPv{version} address')


def _check_node(conf):
    """Options of the agent and the datapath."""
    uplinks = conf.agent.uplinks
    if not 1 <= len(uplinks) <= UPLINKS_MAX:
        raise ConfigurationError(
            f'[agent] uplinks: 1 to {UPLINKS_MAX} interfaces are possible')
    if len(set(uplinks)) < len(uplinks):
        raise ConfigurationError('[agent] uplinks: an interface is there '
                                 'twice')
    gateways(conf)
    _check_source(conf, 'outer_source', 4, 'outer_entropy')
    _check_source(conf, 'outer_source_v6', 6, 'outer_entropy_v6')
    _check_address(conf, 'next_hop_v6', 6)
    if conf.datapath.flows_max.bit_count() != 1:
        raise ConfigurationError('[datapath] flows_max: must be a power of '
                                 'two')
    if 0 < conf.datapath.member_mtu < 1280:
        raise ConfigurationError(
            '[datapath] member_mtu: must be 0 or at least 1280')


def listening_address(conf, group, name):
    """The option, as ADDR:PORT, taken apart; None where it is not set.

    :raises ConfigurationError: it is something else.
    """
    text = conf[group][name]
    if not text:
        return None
    host, _colon, port = text.rpartition(':')
    bracketed = host.startswith('[') and host.endswith(']')
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError as error:
        raise ConfigurationError(f'[{group}] {name}: {error}') from error
    if (bracketed != (address.version == 6)
            or not port.isdecimal() or not 0 < int(port) < 65536):
        raise ConfigurationError(
            f'[{group}] {name}: {text!r} is no address and port')
    return str(address), int(port)


def default_config_files():
    """The file that OCTAVIA_XDP_CONF names, or the usual one if it exists."""
    named = os.environ.get(CONFIG_ENVIRONMENT_VARIABLE)
    if named:
        return [named]
    if os.path.exists(DEFAULT_CONFIG_FILE):
        return [DEFAULT_CONFIG_FILE]
    return []


def new():
    """A ``ConfigOpts`` of the provider's own, with all options, not read."""
    conf = cfg.ConfigOpts()
    for group, opts in GROUPS.items():
        conf.register_opts(opts, group=None if group == 'DEFAULT' else group)
    conf.register_opts(db_options.database_opts, group='database')
    conf.set_default('connection', DEFAULT_DATABASE, group='database')
    logging.register_options(conf)
    return conf


def _read(conf, group, name):
    try:
        return (conf if group == 'DEFAULT' else conf[group])[name]
    except cfg.Error as error:
        raise ConfigurationError(f'[{group}] {name}: {error}') from error


def check(conf):
    """Refuse values that cannot be used.

    :raises ConfigurationError: names the option.
    """
    for group, opts in GROUPS.items():
        for opt in opts:  # oslo.config looks at a value when it is read
            _read(conf, group, opt.dest)
    networks(conf, 'vip', 'allowed_networks')
    networks(conf, 'members', 'denied_networks')
    listening_address(conf, 'agent', 'result_handler_metrics')
    _check_node(conf)
    if conf.controller.confirm_timeout <= conf.driver.request_timeout:
        raise ConfigurationError(
            '[controller] confirm_timeout must be larger than [driver] '
            'request_timeout, or a request still under way could be undone')


def load(argv=(), config_files=None, prog='octavia-xdp'):
    """A ``ConfigOpts`` of the provider's own, read and checked.

    :param argv: command line arguments without the program's name.
    :param config_files: files to read. Default: default_config_files().
    :raises ConfigurationError: a file or a value cannot be used.
    """
    conf = new()
    if config_files is None:
        config_files = default_config_files()
    try:
        conf(list(argv), project='octavia-xdp', prog=prog,
             default_config_files=config_files, default_config_dirs=[])
    except cfg.Error as error:
        raise ConfigurationError(str(error)) from error
    check(conf)
    return conf

# SPDX-License-Identifier: Apache-2.0
"""Options of a hypervisor's agent and datapath."""

import ipaddress

from oslo_config import cfg
from oslo_config import types

from octavia_xdp_provider.config import option_values

# Not [host]: the option [DEFAULT] host has that name.
GROUP = 'host_agent'
# Bits of a SID before the key.
SID_BITS = 96
GENEVE, SRV6 = 'geneve', 'srv6'

host_opts = [
    cfg.ListOpt('underlay_interfaces',
                default=['eth0'],
                help='Network interfaces of this hypervisor on which packets '
                     'of LB nodes arrive. The program is attached to each and '
                     'passes all other packets unchanged. For packets with a '
                     'VLAN tag, name the VLAN interface; for a bond, the '
                     'bond. A port of an Open vSwitch bridge with the '
                     'userspace datapath does not work.'),
    cfg.ListOpt('encapsulations',
                item_type=types.String(choices=[GENEVE, SRV6]),
                default=[GENEVE, SRV6],
                help='How LB nodes may reach members here: geneve to '
                     'local_address and local_address_v6, srv6 to sid_prefix. '
                     'An encapsulation without an address is not offered.'),
    cfg.StrOpt('local_address',
               help='IPv4 address to which LB nodes send Geneve packets. It '
                    'may be the same as OVN\'s. Default: the first address of '
                    'the first underlay interface.'),
    cfg.StrOpt('local_address_v6',
               help='The same for IPv6. Default: the first global address of '
                    'the first underlay interface.'),
    cfg.StrOpt('sid_prefix',
               help='IPv6 network of 96 bits that is routed to this '
                    'hypervisor. Its addresses are the SIDs of members; the '
                    'last 32 bits are the key. Default: none, which disables '
                    'SRv6.'),
    cfg.StrOpt('reply_interface',
               help='Network interface whose routes lead replies to clients. '
                    'For an interface in a VRF, the VRF\'s table is used. '
                    'Default: the first underlay interface.'),
    cfg.IntOpt('flows_per_port',
               default=500000, min=1, max=2 ** 31 - 1, mutable=True,
               help='Maximum number of confirmed flows of a Neutron port, so '
                    'that no tenant can fill the table. Further flows stay '
                    'half-open and end sooner.'),
    cfg.IntOpt('ports_max',
               default=512, min=1, max=65535,
               help='Maximum number of Neutron ports with members on this '
                    'hypervisor. This option, entries_max and flows_max take '
                    'effect only when the maps are created; see the '
                    'administrator guide.'),
    cfg.IntOpt('entries_max',
               default=4096, min=1, max=65535,
               help='Maximum number of entries: a member takes one for each '
                    'listener that uses its pool.'),
    cfg.IntOpt('flows_max',
               default=1048576, min=1024, max=2 ** 26,
               help='Maximum number of confirmed flows of all ports '
                    'together.'),
    cfg.StrOpt('ovsdb',
               default='unix:/run/openvswitch/db.sock',
               help='Connection to the hypervisor\'s own Open vSwitch '
                    'database, in the form of the --db option of '
                    'ovs-vsctl(8). It maps interfaces to Neutron ports.'),
    cfg.StrOpt('run_directory',
               default='/run/octavia-xdp-host',
               help='Directory of the agent\'s own files. They hold the last '
                    'state received from a controller, which the agent uses '
                    'while no controller answers, including after a restart.'),
    cfg.StrOpt('library',
               default='liboctavia_xdp_host.so.10',
               help='The hypervisor\'s datapath library: a name that the '
                    'dynamic loader finds, or a path.'),
    cfg.StrOpt('pin_directory',
               default='/sys/fs/bpf/octavia-xdp-host',
               help='Directory on a bpffs for the pinned maps and programs.'),
    cfg.IntOpt('fetch_interval',
               default=5, min=1, max=10,
               help='Seconds between two queries of the controller, which '
                    'considers the agent dead after several are missing. A '
                    'change is fetched at once.'),
    cfg.StrOpt('listen',
               help='Address and port, such as 127.0.0.1:9107, where the '
                    'agent answers GET /metrics (Prometheus) and GET '
                    '/healthcheck, without authentication. Default: it does '
                    'not listen.'),
]


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse invalid values.

    :raises ConfigurationError: names the option.
    """
    interfaces = conf.host_agent.underlay_interfaces
    if not interfaces or len(set(interfaces)) < len(interfaces):
        raise option_values.ConfigurationError(
            f'[{GROUP}] underlay_interfaces: name at least one, each once')
    for name, version in (('local_address', 4), ('local_address_v6', 6)):
        option_values.check_address(conf, GROUP, name, version)
    sid_network(conf)
    option_values.listening_address(conf, GROUP, 'listen')


def sid_network(conf: cfg.ConfigOpts) -> ipaddress.IPv6Network | None:
    """Return [host_agent] sid_prefix.

    :raises ConfigurationError: it is not a network of 96 bits.
    """
    text = conf[GROUP].sid_prefix
    if not text:
        return None
    try:
        network = ipaddress.IPv6Network(text)
    except ValueError as error:
        raise option_values.ConfigurationError(
            f'[{GROUP}] sid_prefix: {error}') from error
    if network.prefixlen != SID_BITS:
        raise option_values.ConfigurationError(
            f'[{GROUP}] sid_prefix: {text} has {network.prefixlen} bits, '
            f'not the {SID_BITS} before a key of 32')
    return network

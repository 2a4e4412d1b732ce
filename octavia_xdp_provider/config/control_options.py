# SPDX-License-Identifier: Apache-2.0
"""Options of the driver and the controller, some for nodes as well."""

from oslo_config import cfg
from oslo_config import types

from octavia_xdp_provider.contracts import flavor

HTTP_METHODS = ('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'TRACE', 'OPTIONS',
                'CONNECT', 'PATCH')

driver_opts = [
    cfg.IntOpt('request_timeout',
               default=10, min=1,
               help='Seconds that an API request waits for the controller '
                    'before it fails with an error and without any effect, '
                    'whatever the message broker does. After a request '
                    'without an answer, further requests fail at once until '
                    'the controller answers again.'),
]

vip_opts = [
    cfg.ListOpt('allowed_networks',
                default=[],
                help='Networks (CIDR) in which VIPs may be announced into the '
                     'fabric. The driver and each LB node refuse a load '
                     'balancer with any other VIP. Empty: every load balancer '
                     'is refused, because a tenant could otherwise announce '
                     'any address.'),
    cfg.ListOpt('denied_networks',
                default=[],
                help='Networks (CIDR) within allowed_networks in which no VIP '
                     'may be, such as those of routers and other hosts. '
                     'Always refused: the gateway of the VIP\'s subnet, and '
                     'the addresses of LB nodes, their next hops and their '
                     'BGP neighbours, once the nodes have reported these.'),
    cfg.ListOpt('subnet_ids',
                default=[],
                help='Neutron subnets (UUID) on which VIPs may be, in '
                     'addition to those of network_ids. The driver refuses a '
                     'VIP on any other subnet. If both lists are empty, VIPs '
                     'may be on shared and external networks, which only an '
                     'administrator can create. A tenant\'s own subnet could '
                     'contain addresses of allowed_networks, which would then '
                     'be announced.'),
    cfg.ListOpt('network_ids',
                default=[],
                help='Neutron networks (UUID) on whose subnets VIPs may be.'),
    cfg.BoolOpt('any_network',
                default=False,
                help='Check VIPs by their address alone: the driver does not '
                     'ask Neutron for the VIP\'s network or gateway. Anybody '
                     'who can create a subnet can then have any address of '
                     'allowed_networks announced. For test beds only. '
                     'Excludes subnet_ids and network_ids.'),
]

member_opts = [
    cfg.ListOpt('allowed_networks',
                default=[],
                help='Networks (CIDR) in which members and monitor addresses '
                     'may be. Health checks and forwarded packets come from '
                     'the LB nodes and reach whatever those reach. The driver '
                     'refuses members elsewhere; empty: it refuses all. LB '
                     'nodes check again; there, empty means every network. '
                     'Always refused: denied_networks, [vip] '
                     'allowed_networks, addresses of LB nodes and of VIPs, '
                     'and IPv6 addresses that lead to an IPv4 address (NAT64, '
                     '6to4, Teredo, ISATAP).'),
    cfg.ListOpt('denied_networks',
                default=['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16',
                         '224.0.0.0/4', '240.0.0.0/4',
                         '::/128', '::1/128', 'fe80::/10', 'ff00::/8'],
                help='Networks (CIDR) within allowed_networks in which no '
                     'member and no monitor address may be, such as the '
                     'operator\'s own.'),
    cfg.BoolOpt('check_subnets',
                default=False,
                help='Refuse a new member whose address is not in the '
                     'subnet_id that it names. If disabled, a member may be '
                     'anywhere behind its subnet, since members are reached '
                     'by routing; all members that name a subnet must then '
                     'have the same IP version, unless it is a VIP\'s subnet. '
                     'In either case octavia-api asks Neutron, as a user who '
                     'may read RBAC policies, whether the load balancer\'s '
                     'project may use the subnet.'),
    cfg.ListOpt('monitor_http_methods',
                item_type=types.String(choices=list(HTTP_METHODS)),
                default=['GET', 'HEAD', 'OPTIONS'],
                help='HTTP methods that health monitors may use. Other '
                     'methods can change something on a server, in requests '
                     'that come from an LB node\'s address.'),
]

api_opts = [
    cfg.ListOpt('algorithms_served_by_hash',
                item_type=types.String(
                    choices=list(flavor.ALGORITHMS_BY_HASH)),
                default=[],
                help='Pool algorithms that LB nodes serve although they '
                     'choose members by a consistent hash of each flow\'s '
                     'addresses and ports, as with SOURCE_IP_PORT. Others '
                     'than these need proxy nodes. Clients such as Horizon, '
                     'Heat, Terraform and Kubernetes\' cloud provider request '
                     'ROUND_ROBIN by default. A flavor can have its own '
                     'list.'),
]

# Defaults for keys that a flavor leaves out, by the key's name.
defaults_opts = [
    cfg.IntOpt('replicas', min=1,
               help='Default for flavors. If unset: [placement] replicas of '
                    'the controller.'),
    # Those that carry both IP versions and need no other key.
    cfg.StrOpt('encapsulation',
               choices=[name for name in flavor.ENCAPSULATIONS
                        if name not in ('dscp', 'srv6')],
               help='Default for flavors. If unset: ipip.'),
    cfg.StrOpt('forwarding', choices=list(flavor.FORWARDING),
               help='Default for flavors. With nat, members can be anything '
                    'that is reached by routing, and LB nodes need [nat] '
                    'pools; nat excludes the options of this section that say '
                    'how packets are carried to members. Any value fixes '
                    'which nodes serve listeners of TCP: tunnel and nat LB '
                    'nodes, proxy proxy nodes. If unset: LB nodes, by '
                    'tunnels, wherever they can do what is asked.'),
    cfg.StrOpt('member_port', choices=list(flavor.MEMBER_PORTS),
               help='Default for flavors. With rewrite, members may listen on '
                    'other ports than the listener, as Kubernetes\' NodePorts '
                    'do, and every member needs the project\'s program. If '
                    'unset: same.'),
    cfg.BoolOpt('quic', help='Default for flavors. If unset: false.'),
    cfg.IntOpt('new_flow_rate', min=0, max=flavor.RATE_MAX,
               help='Default for flavors. If unset: 0, no limit.'),
    cfg.IntOpt('new_flow_burst', min=1, max=flavor.RATE_MAX,
               help='Default for flavors; requires new_flow_rate. If unset: '
                    'new_flow_rate.'),
    cfg.IntOpt('idle_timeout', min=flavor.IDLE_TIMEOUT_MIN,
               max=flavor.IDLE_TIMEOUT_MAX,
               help='Default for flavors. If unset: 350.'),
]

_MIB = 1024 * 1024

limits_opts = [
    cfg.IntOpt('load_balancer_members',
               default=8192, min=0, mutable=True,
               help='Maximum number of members in all pools of a load '
                    'balancer, including pools that no listener uses. If a '
                    'limit of this section is lowered, larger objects stay '
                    'but cannot grow. 0: no limit.'),
    cfg.IntOpt('load_balancer_bytes',
               default=4 * _MIB, min=64 * 1024, max=4 * _MIB,
               mutable=True,
               help='Maximum size in bytes of the JSON document that '
                    'describes a load balancer. A member takes about 300 '
                    'bytes, with zero_touch about 700, and a network of '
                    'allowed_cidrs about 20. The document must fit into '
                    'messages and the database.'),
    cfg.IntOpt('project_members',
               default=131072, min=0, mutable=True,
               help='Maximum number of members in all load balancers of a '
                    'project. 0: no limit.'),
    cfg.IntOpt('project_bytes',
               default=128 * _MIB, min=0, mutable=True,
               help='Maximum total size in bytes of the documents of all load '
                    'balancers of a project. 0: no limit.'),
]

node_server_opts = [
    cfg.StrOpt('transport_url',
               secret=True,
               sample_default='rabbit://octavia-xdp-controller:PASSWORD@'
                              'BROKER:5672/{vhost}',
               help='Message broker for the controllers and the LB nodes, in '
                    'the form of [DEFAULT] transport_url (which only the '
                    'driver and the controllers use), but with {vhost} in '
                    'place of the virtual host: each node has its own. '
                    '"octavia-xdp-manage node create" registers a node and '
                    'creates its user and virtual host, or prints the '
                    'commands for it.'),
    cfg.FloatOpt('calls_per_second',
                 default=100.0, min=1.0,
                 help='Calls per second that a controller answers for one '
                      'LB node. Further calls wait, which delays that node '
                      'only.'),
]

placement_opts = [
    cfg.IntOpt('replicas',
               default=2, min=1, mutable=True,
               help='Number of LB nodes on which a VIP is placed, unless the '
                    'flavor sets it, and of proxy nodes if it needs any. If '
                    'fewer nodes are in service, the VIP is placed on those, '
                    'and on more once they appear.'),
    cfg.StrOpt('spread',
               default='prefer', choices=list(flavor.SPREADS), mutable=True,
               help='Whether the LB nodes of a VIP are in different zones, '
                    'unless the flavor sets it. The zone of a node is what '
                    '"octavia-xdp-manage node zone" registers; nodes without '
                    'one count as nodes of one common zone without a name. '
                    'prefer: each node is chosen in a zone with the fewest '
                    'nodes of the VIP. require: none is chosen in a zone '
                    'that has one; if too few zones have a node for it, the '
                    'VIP is on fewer nodes. off: zones do not matter.'),
    cfg.IntOpt('spread_moves_max',
               default=10, min=0, mutable=True,
               help='Maximum number of load balancers that are moved at the '
                    'same time to spread them over more zones, for example '
                    'when the nodes of a zone are back. 0: none.'),
    cfg.IntOpt('node_timeout',
               default=15, min=2,
               help='Seconds without a report after which no status waits for '
                    'an LB node and it is given no load balancers.'),
    cfg.IntOpt('replace_after',
               default=30, min=2, mutable=True,
               help='Seconds without a report after which an LB node is '
                    'considered dead and its VIPs are placed on other nodes. '
                    'Only time in which the leading controller could receive '
                    'reports counts: the period starts again after the '
                    'controller starts, and after an outage in which no node '
                    'reported. At least node_timeout.'),
    cfg.FloatOpt('settle_time',
                 default=120.0, min=0.0, max=3600.0, mutable=True,
                 help='After several nodes have died, or a node has come back '
                      'while another is dead, the others are likely to return '
                      'too. For this many seconds, load balancers that at '
                      'least one LB node still serves get no replacement for '
                      'a dead node. A load balancer that no node serves gets '
                      'one at once. 0: no delay.'),
    cfg.ListOpt('filters',
                default=['live', 'capacity', 'zone', 'zero_touch'],
                help='Filters that select the LB nodes and the proxy nodes '
                     'on which a load balancer may be placed: plugins of '
                     'the namespace '
                     'octavia_xdp.scheduler.filters.'),
    cfg.ListOpt('weighers',
                default=['fewest_load_balancers', 'fewest_services'],
                help='Weighers that rank these nodes, the most important '
                     'first: plugins of the namespace '
                     'octavia_xdp.scheduler.weighers.'),
    cfg.IntOpt('rebalance_moves_max',
               default=1, min=0, mutable=True,
               help='Maximum number of load balancers that are moved at the '
                    'same time just to even out the number of VIPs on LB '
                    'nodes, for example to a new node. 0: none.'),
    cfg.FloatOpt('drain_time',
                 default=5.0, min=0.0, max=86400.0, mutable=True,
                 help='Seconds for which a VIP that leaves an LB node on '
                      'purpose (drain, move, failover, rebalancing) is still '
                      'announced there with graceful shutdown (RFC 8326; '
                      '[bgp] drain_communities of the node) before it is '
                      'withdrawn, so that routers move flows. 0: it is '
                      'withdrawn at once.'),
    cfg.FloatOpt('proxy_drain_time',
                 default=60.0, min=0.0, max=86400.0, mutable=True,
                 help='Seconds for which a proxy node that a load balancer '
                      'leaves on purpose (drain, move, failover, '
                      'rebalancing) still serves the connections that it '
                      'has, while LB nodes send it no new ones. Connections '
                      'that last longer are closed. 0: they are closed once '
                      'all LB nodes send it no new ones.'),
    cfg.FloatOpt('nat_drain_time',
                 default=3600.0, min=0.0, max=86400.0, mutable=True,
                 help='Maximum number of seconds for which an LB node keeps '
                      'the flows of a load balancer with forwarding nat that '
                      'leaves it on purpose, after its VIPs are withdrawn '
                      'there. Other nodes pass packets of these flows on to '
                      'it. The drain ends early once all flows have ended; '
                      'longer ones are broken. 0: all flows are broken at '
                      'once.'),
    cfg.IntOpt('removal_budget_percent',
               default=20, min=0, max=100, mutable=True,
               help='Percentage of all placements that may be removed from '
                    'dead or failing LB nodes within removal_budget_period '
                    'without an operator\'s consent (octavia-xdp-manage '
                    'placement allow-removals). Other nodes take over in any '
                    'case; placements beyond the budget stay on the failed '
                    'node as well.'),
    cfg.IntOpt('removal_budget_min',
               default=10, min=0, mutable=True,
               help='Number of removals that are always allowed, however few '
                    'placements there are.'),
    cfg.IntOpt('removal_budget_period',
               default=600, min=1,
               help='Seconds for which the budget of removals applies.'),
]

controller_opts = [
    cfg.StrOpt('listen',
               help='Address and port, such as 127.0.0.1:9104, where the '
                    'controller answers GET /metrics (Prometheus) and GET '
                    '/healthcheck, without authentication. Default: it does '
                    'not listen.'),
    cfg.IntOpt('status_timeout',
               default=60, min=5, mutable=True,
               help='Seconds after which a change waits for no more LB nodes. '
                    'It becomes ACTIVE; if no live node has applied it, the '
                    'operating status is ERROR until a node has. Deleted '
                    'parts of a load balancer stay PENDING_DELETE until they '
                    'are removed.'),
    cfg.IntOpt('deletion_timeout',
               default=300, min=5, mutable=True,
               help='Seconds after which a deleted load balancer that a live '
                    'node has not removed gets the provisioning status ERROR. '
                    'It is deleted once the node has removed it, has died, or '
                    'is no longer registered. Nobody gets its VIPs before. '
                    '"octavia-xdp-manage lb list" names the node.'),
    cfg.IntOpt('confirm_timeout',
               default=30, min=5, mutable=True,
               help='Seconds after the deadline of a change for which the '
                    'controller waits for Octavia to commit it. A change has '
                    'no effect until Octavia has committed it, and is dropped '
                    'after this time.'),
    cfg.IntOpt('workers',
               default=8, min=1, max=64,
               help='Number of load balancers that a controller places, and '
                    'reports to Octavia, at the same time.'),
    cfg.IntOpt('lease_duration',
               default=10, min=3,
               help='Seconds after which other controllers take over the work '
                    'of a dead one.'),
    cfg.IntOpt('resync_interval',
               default=60, min=5,
               help='Seconds between two comparisons with Octavia\'s list of '
                    'load balancers. Load balancers that have changed or that '
                    'wait for a status are then compared in full.'),
    cfg.IntOpt('orphan_lists',
               default=3, min=1, mutable=True,
               help='Number of consecutive lists of Octavia, over at least '
                    'orphan_age seconds, in which a load balancer must be '
                    'absent to be removed as an orphan, though it was not '
                    'deleted by an API call.'),
    cfg.IntOpt('orphan_age',
               default=600, min=0, mutable=True,
               help='Minimum number of seconds between the first and the last '
                    'of these lists.'),
    cfg.IntOpt('orphan_removals_max',
               default=1, min=0, mutable=True,
               help='Maximum number of orphans. If more load balancers are '
                    'absent at once, none is removed: Octavia\'s database may '
                    'have been restored from a backup while they are in use. '
                    '0: orphans are never removed.'),
    cfg.IntOpt('statistics_interval',
               default=10, min=1,
               help='Seconds between two messages of listener statistics to '
                    'Octavia.'),
    cfg.IntOpt('driver_agent_timeout',
               default=10, min=1,
               help='Seconds to wait for an answer of octavia-driver-agent '
                    'before the call is repeated. A status without an answer '
                    'may still be set; newer statuses of the same objects '
                    'wait until this is known.'),
    cfg.IntOpt('driver_agent_connections',
               default=4, min=2,
               help='Number of concurrent calls that set statuses. '
                    'octavia-driver-agent starts a process for each, so more '
                    'calls than its CPUs are not faster.'),
    cfg.StrOpt('status_socket',
               default='/var/run/octavia/status.sock',
               help='Unix socket of octavia-driver-agent for statuses.'),
    cfg.StrOpt('stats_socket',
               default='/var/run/octavia/stats.sock',
               help='Unix socket of octavia-driver-agent for statistics.'),
    cfg.StrOpt('get_socket',
               default='/var/run/octavia/get.sock',
               help='Unix socket of octavia-driver-agent for look-ups.'),
    cfg.StrOpt('preloaded_status_socket',
               default='/var/run/octavia/xdp-status.sock',
               help='Unix socket of a second listener for statuses, which the '
                    'provider agent runs below octavia-driver-agent. It is '
                    'Octavia\'s own code with all modules loaded in advance, '
                    'so that a message takes a fraction of the time. If '
                    'nobody listens here, controllers use status_socket. '
                    'Empty: disabled. Must differ from [driver_agent] '
                    'status_socket_path of octavia.conf.'),
    cfg.StrOpt('preloaded_stats_socket',
               default='/var/run/octavia/xdp-stats.sock',
               help='The same for statistics, in addition to stats_socket.'),
    cfg.StrOpt('preloaded_get_socket',
               default='/var/run/octavia/xdp-get.sock',
               help='The same for look-ups, in addition to get_socket.'),
]

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
                    'before it fails with an error and nothing changed, '
                    'whatever the message broker does. Once there was no '
                    'answer, requests fail at once until the controller '
                    'answers again.'),
]

vip_opts = [
    cfg.ListOpt('allowed_networks',
                default=[],
                help='Networks (CIDR) inside which VIPs may be announced into '
                     'the fabric. A load balancer with any other VIP is '
                     'refused by the driver, and again by each node. Empty: '
                     'every load balancer is refused, because a tenant '
                     'could otherwise announce any address as his own.'),
    cfg.ListOpt('denied_networks',
                default=[],
                help='Networks (CIDR) inside those of allowed_networks in '
                     'which no VIP may be: routers, and whatever else has '
                     'addresses there. Refused in any case are the gateway '
                     'of a VIP\'s subnet, addresses that LB nodes have, and '
                     'those of their next hops and BGP neighbours, as far as '
                     'they have reported them.'),
    cfg.ListOpt('subnet_ids',
                default=[],
                help='Neutron subnets (UUID) on which VIPs may be, beside '
                     'those of network_ids. The driver refuses a VIP on any '
                     'other one. If both lists are empty, VIPs may be on '
                     'networks that Neutron has for everybody, shared or '
                     'external, which only an administrator can make: a '
                     'tenant\'s own subnet may have addresses of '
                     'allowed_networks, and they would be announced.'),
    cfg.ListOpt('network_ids',
                default=[],
                help='Neutron networks (UUID) on whose subnets VIPs may be.'),
    cfg.BoolOpt('any_network',
                default=False,
                help='Let addresses alone decide about VIPs: Neutron is not '
                     'asked whose network a VIP is on, nor for its gateway. '
                     'Anybody who can make a subnet can then have any '
                     'address of allowed_networks announced. For test beds. '
                     'It goes with neither subnet_ids nor network_ids.'),
]

member_opts = [
    cfg.ListOpt('allowed_networks',
                default=[],
                help='Networks (CIDR) in which members and monitor addresses '
                     'may lie. Health checks and forwarded packets come from '
                     'the LB nodes, and reach what those reach. The driver '
                     'refuses members outside; empty: every member. On LB '
                     'nodes, where it is a second line of defence, empty '
                     'stands for every network. Never allowed, whatever is '
                     'listed: denied_networks, [vip] allowed_networks, '
                     'addresses of LB nodes and of VIPs, and IPv6 addresses '
                     'that lead to an IPv4 one (NAT64, 6to4, Teredo, '
                     'ISATAP).'),
    cfg.ListOpt('denied_networks',
                default=['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16',
                         '224.0.0.0/4', '240.0.0.0/4',
                         '::/128', '::1/128', 'fe80::/10', 'ff00::/8'],
                help='Networks (CIDR) inside those of allowed_networks in '
                     'which no member and no monitor address may lie: the '
                     'operator\'s own.'),
    cfg.BoolOpt('check_subnets',
                default=False,
                help='Refuse a new member that names a subnet_id in which '
                     'its address is not. Off, a member may be anywhere '
                     'behind its subnet, as members are reached by routing; '
                     'and all members that name one subnet have addresses of '
                     'one family, if it is none of the VIPs\'. That the '
                     'load balancer\'s project may use the subnet is checked '
                     'in either case: octavia-api asks Neutron, as it is '
                     'configured, with a user who may read RBAC policies.'),
    cfg.ListOpt('monitor_http_methods',
                item_type=types.String(choices=list(HTTP_METHODS)),
                default=['GET', 'HEAD', 'OPTIONS'],
                help='HTTP methods that health monitors may use. Others have '
                     'effects on servers, with the address of an LB node as '
                     'their source.'),
]

api_opts = [
    cfg.ListOpt('algorithms_served_by_hash',
                item_type=types.String(
                    choices=list(flavor.ALGORITHMS_BY_HASH)),
                default=[],
                help='Algorithms of pools that are accepted though LB nodes '
                     'choose members by a consistent hash of each flow\'s '
                     'addresses and ports, as with SOURCE_IP_PORT: clients '
                     'such as Horizon, Heat, Terraform and Kubernetes\' cloud '
                     'provider ask for ROUND_ROBIN unless set otherwise. '
                     'Flavors may have a list of their own.'),
]

# Defaults for keys that a flavor leaves out, by the key's name.
defaults_opts = [
    cfg.IntOpt('replicas', min=1,
               help='Default of flavors. Unless set: [placement] replicas of '
                    'the controller.'),
    # Those that carry both IP versions and need no other key.
    cfg.StrOpt('encapsulation',
               choices=[name for name in flavor.ENCAPSULATIONS
                        if name not in ('dscp', 'srv6')],
               help='Default of flavors. Unless set: ipip.'),
    cfg.StrOpt('forwarding', choices=list(flavor.FORWARDING),
               help='Default of flavors: nat lets members be anything that '
                    'is reached by routing, and needs [nat] pools on LB '
                    'nodes. It goes with none of the other options here that '
                    'say how packets are carried to members. Unless set: '
                    'tunnel.'),
    cfg.StrOpt('member_port', choices=list(flavor.MEMBER_PORTS),
               help='Default of flavors: rewrite lets members listen on other '
                    'ports than the listener, as Kubernetes\' NodePorts are, '
                    'and needs the project\'s program on every member. '
                    'Unless set: same.'),
    cfg.BoolOpt('quic', help='Default of flavors. Unless set: false.'),
    cfg.IntOpt('new_flow_rate', min=0, max=flavor.RATE_MAX,
               help='Default of flavors. Unless set: 0, no limit.'),
    cfg.IntOpt('new_flow_burst', min=1, max=flavor.RATE_MAX,
               help='Default of flavors; only with a new_flow_rate. Unless '
                    'set: as new_flow_rate.'),
    cfg.IntOpt('idle_timeout', min=flavor.IDLE_TIMEOUT_MIN,
               max=flavor.IDLE_TIMEOUT_MAX,
               help='Default of flavors. Unless set: 350.'),
]

_MIB = 1024 * 1024

limits_opts = [
    cfg.IntOpt('load_balancer_members',
               default=8192, min=0, mutable=True,
               help='Members that all pools of a load balancer may have '
                    'together, also those that no listener uses. What is '
                    'larger than a limit of this section when it is lowered '
                    'stays, and grows no more. 0: no limit.'),
    cfg.IntOpt('load_balancer_bytes',
               default=4 * _MIB, min=64 * 1024, max=4 * _MIB,
               mutable=True,
               help='Bytes of JSON that say what a load balancer shall be. '
                    'A member takes some 300, with zero_touch some 700, and '
                    'a network of allowed_cidrs some 20. It is bounded, as '
                    'it has to fit into messages and the database.'),
    cfg.IntOpt('project_members',
               default=131072, min=0, mutable=True,
               help='Members that all load balancers of a project may have '
                    'together. 0: no limit.'),
    cfg.IntOpt('project_bytes',
               default=128 * _MIB, min=0, mutable=True,
               help='Bytes, as for a load balancer, of all load balancers of '
                    'a project together. 0: no limit.'),
]

node_server_opts = [
    cfg.StrOpt('transport_url',
               secret=True,
               sample_default='rabbit://octavia-xdp-controller:PASSWORD@'
                              'BROKER:5672/{vhost}',
               help='Where the controllers and the LB nodes talk: like '
                    '[DEFAULT] transport_url, which is for driver and '
                    'controllers alone, but with {vhost} for the virtual '
                    'host, of which each node has its own. '
                    '"octavia-xdp-manage node create" registers a node, and '
                    'makes its user and virtual host or prints how.'),
    cfg.FloatOpt('calls_per_second',
                 default=100.0, min=1.0,
                 help='Calls of one LB node that a controller answers in a '
                      'second; what is more waits, and delays that node '
                      'alone.'),
]

placement_opts = [
    cfg.IntOpt('replicas',
               default=2, min=1, mutable=True,
               help='Number of LB nodes that a VIP is placed on, unless the '
                    'flavor says otherwise. With fewer nodes in service it '
                    'is placed on those and spread further when more '
                    'appear.'),
    cfg.IntOpt('node_timeout',
               default=15, min=2,
               help='Seconds without a report after which no status waits '
                    'for an LB node, and it is given nothing more.'),
    cfg.IntOpt('replace_after',
               default=30, min=2, mutable=True,
               help='Seconds of silence after which an LB node is taken for '
                    'dead and its VIPs are placed on other nodes where there '
                    'are any. Only time counts in which the leading '
                    'controller could hear: after its own start, and after '
                    'an outage in which no node was heard, it begins anew. '
                    'At least node_timeout.'),
    cfg.FloatOpt('settle_time',
                 default=120.0, min=0.0, max=3600.0, mutable=True,
                 help='Seconds for which load balancers that at least one LB '
                      'node serves get no other node in place of a dead one, '
                      'after several nodes have died or, while one is dead, '
                      'another has come back: the others are likely to come '
                      'back as well. What no node serves gets one at once. '
                      '0: nothing waits.'),
    cfg.ListOpt('filters',
                default=['live', 'capacity', 'zone', 'zero_touch'],
                help='Filters that say which LB nodes may be given a load '
                     'balancer: plugins of the namespace '
                     'octavia_xdp.scheduler.filters.'),
    cfg.ListOpt('weighers',
                default=['fewest_load_balancers', 'fewest_services'],
                help='Weighers that say which of these nodes is best, the '
                     'most important first: plugins of the namespace '
                     'octavia_xdp.scheduler.weighers.'),
    cfg.IntOpt('rebalance_moves_max',
               default=1, min=0, mutable=True,
               help='Load balancers that are moved at a time only to even '
                    'out the number of VIPs on LB nodes, for example to a '
                    'node that is new or back. 0: none.'),
    cfg.FloatOpt('drain_time',
                 default=5.0, min=0.0, max=86400.0, mutable=True,
                 help='Seconds for which a VIP that leaves an LB node by '
                      'plan (a drain, a move, a failover, for the balance) '
                      'is still announced there, as a last resort (RFC 8326; '
                      '[bgp] drain_communities of the node), before it is '
                      'withdrawn: routers move flows meanwhile. 0: it is '
                      'withdrawn at once.'),
    cfg.FloatOpt('nat_drain_time',
                 default=3600.0, min=0.0, max=86400.0, mutable=True,
                 help='Seconds for which an LB node that a load balancer '
                      'with forwarding nat leaves by plan keeps the flows '
                      'that it has at most, once its VIPs are withdrawn '
                      'there: other nodes hand their packets on to it. It '
                      'ends earlier when they have ended. Those that last '
                      'longer are broken. 0: all are, at once.'),
    cfg.IntOpt('removal_budget_percent',
               default=20, min=0, max=100, mutable=True,
               help='Share of all placements that may leave dead or failing '
                    'LB nodes within removal_budget_span without a person\'s '
                    'word (octavia-xdp-manage placement allow-removals). '
                    'Other nodes take over in any case; what is beyond the '
                    'budget only keeps its place on the failed node as '
                    'well.'),
    cfg.IntOpt('removal_budget_least',
               default=10, min=0, mutable=True,
               help='Removals that are free in any case, however few '
                    'placements there are.'),
    cfg.IntOpt('removal_budget_span',
               default=600, min=1,
               help='Seconds that the budget of removals is for.'),
]

controller_opts = [
    cfg.StrOpt('listen',
               help='Address and port, as 127.0.0.1:9104, where the '
                    'controller answers GET /metrics for Prometheus and GET '
                    '/healthcheck. Everybody who can reach it may read them. '
                    'Default: nothing listens.'),
    cfg.IntOpt('status_timeout',
               default=60, min=5, mutable=True,
               help='Seconds after which no node is waited for: a change '
                    'that some have not confirmed becomes ACTIVE, and if no '
                    'live node has, with the operating status ERROR until '
                    'one does. What is deleted of a load balancer stays '
                    'PENDING_DELETE until it is.'),
    cfg.IntOpt('deletion_timeout',
               default=300, min=5, mutable=True,
               help='Seconds after which a load balancer that is deleted, '
                    'and that a live node has not removed, gets the '
                    'provisioning status ERROR. It is deleted when the node '
                    'has done it, or is dead or not registered any more; '
                    'nobody gets its VIPs before. "octavia-xdp-manage lb '
                    'list" names the node.'),
    cfg.IntOpt('confirm_timeout',
               default=30, min=5, mutable=True,
               help='Seconds after the deadline of a change for which the '
                    'controller waits for Octavia to commit it. Until it has '
                    'the change has no effect, and then it is dropped.'),
    cfg.IntOpt('workers',
               default=8, min=1, max=64,
               help='Load balancers that a controller works on at a time: '
                    'places them, and sends Octavia their statuses.'),
    cfg.IntOpt('lease_duration',
               default=10, min=3,
               help='Seconds after which other controllers take over the '
                    'work of a dead one.'),
    cfg.IntOpt('resync_interval',
               default=60, min=5,
               help='Seconds between two comparisons with Octavia\'s list of '
                    'load balancers. Those that have changed, or that wait '
                    'for a status, are then compared whole.'),
    cfg.IntOpt('missing_lists',
               default=3, min=1, mutable=True,
               help='Remove a load balancer that was absent from so many '
                    'consecutive lists of Octavia, over at least '
                    'missing_span seconds, without having been deleted.'),
    cfg.IntOpt('missing_span',
               default=600, min=0, mutable=True,
               help='Seconds between the first and the last of these lists.'),
    cfg.IntOpt('missing_removals_max',
               default=1, min=0, mutable=True,
               help='If more load balancers are missing at once none of them '
                    'is removed: Octavia\'s database may have been restored '
                    'from a backup, and they may be in use. 0: none ever '
                    'is.'),
    cfg.IntOpt('statistics_interval',
               default=10, min=1,
               help='Seconds between two messages of listener statistics to '
                    'Octavia.'),
    cfg.IntOpt('driver_agent_timeout',
               default=10, min=1,
               help='Seconds for which an answer of octavia-driver-agent is '
                    'waited for before the same is tried again. Statuses '
                    'that are not answered may still be set; newer ones of '
                    'the same objects wait until this is known.'),
    cfg.IntOpt('driver_agent_connections',
               default=4, min=2,
               help='Calls that set statuses at the same time. '
                    'octavia-driver-agent starts a process for each: more '
                    'than it has CPUs do not make it faster.'),
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
               help='Unix socket of a second listener for statuses, which '
                    'the provider agent runs below octavia-driver-agent: '
                    'Octavia\'s own, with all that a message needs loaded '
                    'before it comes, so that one takes a fraction of the '
                    'time. Controllers use status_socket where nobody '
                    'listens here. Empty: there is none. Not the '
                    '[driver_agent] status_socket_path of octavia.conf.'),
    cfg.StrOpt('preloaded_stats_socket',
               default='/var/run/octavia/xdp-stats.sock',
               help='The same for statistics, beside stats_socket.'),
    cfg.StrOpt('preloaded_get_socket',
               default='/var/run/octavia/xdp-get.sock',
               help='The same for look-ups, beside get_socket.'),
]

# SPDX-License-Identifier: Apache-2.0
"""Options of the driver and the controller, some for nodes as well."""

from oslo_config import cfg

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
               help='Seconds without a report after which no status waits '
                    'for an LB node, and it is given nothing more.'),
    cfg.IntOpt('replace_after',
               default=30, min=2,
               help='Seconds of silence after which an LB node is taken for '
                    'dead and its VIPs are placed on other nodes where there '
                    'are any. Only time counts in which the controller could '
                    'hear: after its own start, and after an outage in which '
                    'no node was heard, it begins anew. At least '
                    'node_timeout.'),
    cfg.ListOpt('filters',
                default=['live', 'capacity'],
                help='Filters that say which LB nodes may be given a load '
                     'balancer: plugins of the namespace '
                     'octavia_xdp.scheduler.filters.'),
    cfg.ListOpt('weighers',
                default=['fewest_load_balancers', 'fewest_services'],
                help='Weighers that say which of these nodes is best, the '
                     'most important first: plugins of the namespace '
                     'octavia_xdp.scheduler.weighers.'),
    cfg.IntOpt('rebalance_moves_max',
               default=1, min=0,
               help='Load balancers that are moved at a time only to even '
                    'out the number of VIPs on LB nodes, for example to a '
                    'node that is new or back. 0: none.'),
    cfg.IntOpt('removal_budget_percent',
               default=20, min=0, max=100,
               help='Share of all placements that may leave dead or failing '
                    'LB nodes within removal_budget_span without a person\'s '
                    'word (octavia-xdp-manage placement allow-removals). '
                    'Other nodes take over in any case; what is beyond the '
                    'budget only keeps its place on the failed node as '
                    'well.'),
    cfg.IntOpt('removal_budget_least',
               default=10, min=0,
               help='Removals that are free in any case, however few '
                    'placements there are.'),
    cfg.IntOpt('removal_budget_span',
               default=600, min=1,
               help='Seconds that the budget of removals is for.'),
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

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

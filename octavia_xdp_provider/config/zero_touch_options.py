# SPDX-License-Identifier: Apache-2.0
"""Options of driver and controllers for members behind hypervisors."""

from oslo_config import cfg

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor

zero_touch_opts = [
    cfg.StrOpt('mode',
               choices=list(flavor.ZERO_TOUCH), default='off',
               help='Default of flavors\' zero_touch: whether members are '
                    'VMs that know nothing of the load balancer and are '
                    'reached through an agent on their hypervisor. off: '
                    'members are reached at their addresses, and prepared for '
                    'it. required: only so. preferred: members for which it '
                    'is not possible are reached at their addresses. '
                    '"octavia-xdp-manage lb members" shows why.'),
    cfg.ListOpt('member_networks',
                default=[],
                help='Networks (CIDR) of the fixed addresses of tenants\' '
                     'VMs, for members of load balancers whose flavor has '
                     'zero_touch and no others. Packets and health checks go '
                     'to the VM through its hypervisor, and never to the '
                     'address itself, which the operator\'s own hosts may '
                     'have as well: a member that is not reached so is not '
                     'reached, unless its address is in [members] '
                     'allowed_networks, too. Empty: there is one list for '
                     'all members, [members] allowed_networks, which VMs\' '
                     'addresses have to be in.'),
    cfg.ListOpt('node_networks',
                default=[],
                help='Networks (CIDR) of the LB nodes\' addresses on the '
                     'underlay: hypervisors take members\' packets from '
                     'these alone, and let health checks from them in. '
                     'Nobody else may send from them; the fabric has to see '
                     'to that. Needed.'),
    cfg.ListOpt('host_networks',
                default=[],
                help='Networks (CIDR) in which hypervisors\' addresses and '
                     'SIDs are, to which LB nodes send. What a hypervisor '
                     'reports outside of them is not used. Of several that '
                     'are inside SIDs come first, then IPv4 with Geneve, '
                     'then IPv6 with it. Needed.'),
    cfg.IntOpt('host_timeout',
               default=60, min=10,
               help='Seconds without a call after which a hypervisor\'s '
                    'agent is given no new members. Those that it has are '
                    'served on: its programs need no agent.'),
    cfg.FloatOpt('neutron_interval',
                 default=10.0, min=1.0,
                 help='Seconds between two looks in Neutron at 200 members, '
                      'in turns. New ones are looked for at once.'),
    cfg.StrOpt('notification_transport_url',
               secret=True,
               sample_default='rabbit://octavia-xdp-notifications:PASSWORD@'
                              'BROKER:5672/neutron',
               help='Where Neutron sends its notifications, as its '
                    '[oslo_messaging_notifications] transport_url, or '
                    '[DEFAULT] transport_url, says, with a user that may '
                    'read them; RabbitMQ only. A port or a security group of '
                    'a member that has changed is then looked at at once, '
                    'and in turns besides. Default: in turns alone.'),
    cfg.StrOpt('notification_ca_file',
               help='Authority (PEM) that has signed the certificate of that '
                    'broker, to which TLS is spoken then. Default: no TLS.'),
    cfg.ListOpt('notification_topics',
                default=['notifications'],
                help='Topics of Neutron\'s notifications: its '
                     '[oslo_messaging_notifications] topics. Other consumers '
                     'of a topic lose nothing.'),
    cfg.StrOpt('notification_exchange',
               default='neutron',
               help='Exchange of Neutron\'s notifications: its [DEFAULT] '
                    'control_exchange.'),
    cfg.IntOpt('migration_patience',
               default=30, min=0, max=fields.PATIENCE_MAX,
               help='Grace period: seconds for which a migrating member may '
                    'fail health checks, without a success, before it is '
                    'down. It applies while Neutron announces the live '
                    'migration of its VM, and for as long after the binding '
                    'has moved. The VM cannot be reached until Neutron and '
                    'the LB nodes have followed it, mostly for less than ten '
                    'seconds. A slower health monitor still decides later. '
                    '0: disabled.'),
    cfg.IntOpt('key_quarantine',
               default=600, min=60,
               help='Seconds for which the key of a member that was removed '
                    'from a hypervisor is not reused there, so that packets '
                    'of an LB node that was cut off cannot reach another '
                    'tenant\'s VM.'),
]

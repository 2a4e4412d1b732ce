# SPDX-License-Identifier: Apache-2.0
"""Options of driver and controllers for members behind hypervisors."""

from oslo_config import cfg

from octavia_xdp_provider.contracts import fields
from octavia_xdp_provider.contracts import flavor

zero_touch_opts = [
    cfg.StrOpt('mode',
               choices=list(flavor.ZERO_TOUCH), default='off',
               help='Default for the flavor key zero_touch: whether members '
                    'are VMs that need no preparation because an agent on '
                    'their hypervisor delivers the packets. off: members are '
                    'reached at their own addresses and must be prepared. '
                    'required: only through hypervisors. preferred: through '
                    'hypervisors where possible, else at their own addresses; '
                    '"octavia-xdp-manage lb members" shows why.'),
    cfg.ListOpt('member_networks',
                default=[],
                help='Networks (CIDR) of the fixed addresses of tenants\' '
                     'VMs. They apply only to members of load balancers whose '
                     'flavor has zero_touch. Packets and health checks reach '
                     'such a VM only through its hypervisor and never through '
                     'its address, which one of the operator\'s own hosts may '
                     'have too. A member that cannot be reached through its '
                     'hypervisor is not reached at all, unless its address is '
                     'in [members] allowed_networks as well. Empty: [members] '
                     'allowed_networks applies to all members and must '
                     'contain the VMs\' addresses.'),
    cfg.ListOpt('node_networks',
                default=[],
                help='Networks (CIDR) of the LB nodes\' addresses on the '
                     'underlay. Hypervisors accept packets for members only '
                     'from these networks, and let health checks from them '
                     'in. The fabric must ensure that nobody else can send '
                     'from them. Required.'),
    cfg.ListOpt('proxy_networks',
                default=[],
                help='Networks (CIDR) of the proxy nodes\' addresses on the '
                     'underlay, if proxy nodes reach members through '
                     'hypervisors ([proxy] token_networks). Hypervisors '
                     'accept packets for members from these networks as '
                     'well. Security groups judge them as if they came from '
                     'the VIP\'s own Neutron port. The fabric must ensure '
                     'that nobody else can send from them.'),
    cfg.ListOpt('host_networks',
                default=[],
                help='Networks (CIDR) that contain the addresses and SIDs of '
                     'hypervisors, to which LB nodes send. Addresses that a '
                     'hypervisor reports outside of them are ignored. SIDs '
                     'are preferred, then IPv4 with Geneve, then IPv6 with '
                     'Geneve. Required.'),
    cfg.IntOpt('host_timeout',
               default=60, min=10,
               help='Seconds without a call from a hypervisor\'s agent after '
                    'which it is given no new members. Its existing members '
                    'keep working: the datapath does not need the agent.'),
    cfg.FloatOpt('neutron_interval',
                 default=10.0, min=1.0,
                 help='Seconds between two queries of Neutron, each for the '
                      'next 200 members. New members are looked up at once.'),
    cfg.StrOpt('notification_transport_url',
               secret=True,
               sample_default='rabbit://octavia-xdp-notifications:PASSWORD@'
                              'BROKER:5672/neutron',
               help='Message broker to which Neutron sends its notifications: '
                    'the transport_url of its [oslo_messaging_notifications], '
                    'or of its [DEFAULT], with a user that may read them. '
                    'RabbitMQ only. When a member\'s port or security group '
                    'changes, it is then looked up at once, in addition to '
                    'periodic queries. Default: periodic queries only.'),
    cfg.StrOpt('notification_ca_file',
               help='CA certificate (PEM) for TLS to that broker. Default: no '
                    'TLS.'),
    cfg.ListOpt('notification_topics',
                default=['notifications'],
                help='Topics of Neutron\'s notifications: its '
                     '[oslo_messaging_notifications] topics. Other consumers '
                     'of a topic still receive all messages.'),
    cfg.StrOpt('notification_exchange',
               default='neutron',
               help='Exchange of Neutron\'s notifications: its [DEFAULT] '
                    'control_exchange.'),
    cfg.IntOpt('migration_patience',
               default=30, min=0, max=fields.PATIENCE_MAX,
               help='Grace period in seconds: how long a migrating member may '
                    'fail health checks before it is marked down. It applies '
                    'while Neutron announces the live migration of the VM, '
                    'and for the same time after the binding has moved. Until '
                    'Neutron and the LB nodes have followed the VM, usually '
                    'within ten seconds, it cannot be reached. A slower '
                    'health monitor still decides later. 0: disabled.'),
    cfg.IntOpt('key_quarantine',
               default=600, min=60,
               help='Seconds before the key of a member that was removed from '
                    'a hypervisor is reused there, so that packets of a '
                    'disconnected LB node cannot reach another tenant\'s VM.'),
]

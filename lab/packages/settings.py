# SPDX-License-Identifier: Apache-2.0
"""An operator's files below /etc/octavia-xdp, all on one host.

There is no broker: controller and agents must run without one.
"""

import re

from octavia_xdp_provider.agent.bgp import exabgp_config

AGENT_PORT, HANDLER_PORT, CONTROLLER_PORT, HOST_PORT = 9105, 9106, 9104, 9107
URLS = {
    'octavia-xdp-agent': f'http://127.0.0.1:{AGENT_PORT}/metrics',
    'octavia-xdp-result-handler': f'http://127.0.0.1:{HANDLER_PORT}/metrics',
    'octavia-xdp-controller': f'http://127.0.0.1:{CONTROLLER_PORT}/metrics',
    'octavia-xdp-host-agent': f'http://127.0.0.1:{HOST_PORT}/metrics',
}
DIRECTORY = '/etc/octavia-xdp'
VIP = '203.0.113.10'

_MAIN = f'''[DEFAULT]
host = lb1
transport_url = rabbit://nobody:nothing@127.0.0.1:1/none
[nodes]
transport_url = rabbit://nobody:nothing@127.0.0.1:1/{{vhost}}
[vip]
allowed_networks = 203.0.113.0/24
[members]
allowed_networks = 198.18.0.0/15
[agent]
uplinks = eth0
listen = 127.0.0.1:{AGENT_PORT}
result_handler_metrics = 127.0.0.1:{HANDLER_PORT}
[datapath]
services_max = 16
[octavia]
auth_type = none
endpoint = http://127.0.0.1:1
[controller]
listen = 127.0.0.1:{CONTROLLER_PORT}
[host_agent]
underlay_interfaces = eth1
listen = 127.0.0.1:{HOST_PORT}
ports_max = 16
flows_max = 4096
'''
_EXABGP = exabgp_config.render(
    '198.51.100.2', [exabgp_config.Neighbour(
        local_address='198.51.100.2', local_as=65010,
        peer_address='198.51.100.1', peer_as=65000)],
    ['/usr/bin/octavia-xdp-announcer', '--file',
     '/run/octavia-xdp/announcements.json', '--network', '203.0.113.0/24'])
_MEMBER = f'''vip = {VIP}
node = 198.51.100.0/24
sysctl = yes
tc = yes
'''
# {name: text}
FILES = {'octavia-xdp.conf': _MAIN, 'exabgp.conf': _EXABGP,
         'member.conf': _MEMBER}


def metric(text, name):
    """Return the value of a metric without labels, or None."""
    match = re.search(f'^{name} (.*)$', text, re.M)
    return float(match[1]) if match else None

# SPDX-License-Identifier: Apache-2.0
"""The top-of-rack router: BIRD, and the kernel's equal-cost multipath."""

import ipaddress
import json
import re

from lab import namespaces
from lab import paths
from lab import processes
from lab.fabric import links

BIRD = 'bird'
ASN = 65000
# All LB nodes have the same AS number: they are one service to the fabric.
NODE_ASN = 65010
HOLD_TIME = 9
MEMBERS = 'members'

# Common to all routers: BGP routes, including multipath routes through several
# nodes, are exported to the kernel. {router_id} is an IPv4 address.
HEADING = '''\
router id {router_id};
protocol device {{ }}
protocol kernel {{
    merge paths on;
    ipv4 {{ import none; export where source = RTS_BGP; }};
}}
protocol kernel {{
    merge paths on;
    ipv6 {{ import none; export where source = RTS_BGP; }};
}}
'''
_CONFIGURATION = HEADING + '''\
filter vips {{
    # RFC 8326: drained routes are a last resort.
    if (65535, 0) ~ bgp_community then bgp_local_pref = 0;
    if net ~ [ {vips}{{32,32}}, {pools}{{25,32}} ] then accept;
    reject;
}}
filter vips_v6 {{
    if (65535, 0) ~ bgp_community then bgp_local_pref = 0;
    if net ~ [ {vips_v6}{{128,128}}, {pools_v6}{{113,128}} ] then accept;
    reject;
}}
template bgp node {{
    local as {asn};
    passive yes;
    hold time {hold_time};
    direct;
    check link yes;
    # Reconnect to a returning node at once.
    error wait time 1, 2;
    graceful restart off;
    ipv4 {{ import filter vips; export none; }};
    ipv6 {{ import filter vips_v6; export none; }};
}}
'''

_SESSION = '''\
protocol bgp {node} from node {{
    interface "{node}";
    neighbor {address} as {node_asn};
}}
'''


def create(lab):
    """Create the router with the networks of members and of the client."""
    namespaces.create(lab, links.ROUTER)
    links.open_paths(lab, links.ROUTER)
    namespaces.sysctl(
        lab, links.ROUTER, net__ipv4__ip_forward=1,
        net__ipv6__conf__all__forwarding=1,
        # Keep IPv6 addresses when a link goes down.
        net__ipv6__conf__all__keep_addr_on_down=1,
        net__ipv4__fib_multipath_hash_policy=1,
        net__ipv6__fib_multipath_hash_policy=1)
    namespaces.bridge(lab, links.ROUTER, MEMBERS)
    links.set_mtu(lab, links.ROUTER, MEMBERS, links.FABRIC_MTU)
    namespaces.address(
        lab, links.ROUTER, MEMBERS,
        f'{paths.MEMBER_GATEWAY}/{paths.MEMBER_NETWORK.prefixlen}')
    namespaces.address(
        lab, links.ROUTER, MEMBERS,
        f'{paths.MEMBER_GATEWAY_V6}/{paths.MEMBER_NETWORK_V6.prefixlen}')


def start(lab, nodes):
    """Start BIRD; `nodes` is {LB node: uplink address}."""
    configuration = lab.host_directory(links.ROUTER) / 'bird.conf'
    text = _CONFIGURATION.format(
        router_id=paths.CLIENT_GATEWAY, vips=paths.VIP_NETWORK,
        vips_v6=paths.VIP_NETWORK_V6, pools=paths.NAT_NETWORK,
        pools_v6=paths.NAT_NETWORK_V6, asn=ASN, hold_time=HOLD_TIME)
    for node, address in nodes.items():
        text += _SESSION.format(
            node=node, address=address, node_asn=NODE_ASN)
    configuration.write_text(text)
    processes.start(
        lab, links.ROUTER, BIRD,
        ['bird', '-f', '-c', configuration, '-s', _socket(lab),
         '-P', lab.run_directory / 'bird.pid'],
        ready=lambda: birdc(lab, 'show', 'status', check=False))


def birdc(lab, *command, check=True):
    """Return BIRD's answer to a command; '' if it does not run."""
    done = processes.run(
        lab, links.ROUTER, ['birdc', '-r', '-s', _socket(lab), *command],
        check=check)
    return '' if done.returncode else done.stdout


def sessions(lab):
    """Return the LB nodes whose BGP session is established."""
    return sorted(line.split()[0]
                  for line in birdc(lab, 'show', 'protocols').splitlines()
                  if ' BGP ' in line and 'Established' in line)


def announced_by(lab, vip):
    """Return the LB nodes that announce a VIP, even as a last resort."""
    network = ipaddress.ip_network(str(vip))
    routes = birdc(lab, 'show', 'route', str(network), check=False)
    return sorted(set(re.findall(r'\[([a-z0-9]+)[ \]]', routes)))


def next_hops(lab, vip):
    """Return the next hops of the kernel's route to a VIP."""
    done = processes.run(
        lab, links.ROUTER,
        ['ip', '-json', *(['-6'] if ':' in str(vip) else []), 'route',
         'show', str(vip)])
    routes = json.loads(done.stdout or '[]')
    hops = [hop for route in routes
            for hop in route.get('nexthops', [route])]
    return sorted(hop['gateway'] for hop in hops)


def _socket(lab):
    return lab.run_directory / 'bird.ctl'

# SPDX-License-Identifier: Apache-2.0
"""Names, directories and addresses of a lab.

All names of a lab's objects contain its identity, which is derived from the
checkout's path and the lab's name: two labs never collide, and the remains of
an interrupted run can be found without a record of them.
"""

import contextlib
import fcntl
import hashlib
import ipaddress
import os
import pathlib
import re
import shutil

from lab import state

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent
BUILD = CHECKOUT / 'build'
VENV = BUILD / 'venv'
LIBRARY = CHECKOUT / 'datapath' / 'build' / 'liboctavia_xdp.so'
HOST_LIBRARY = LIBRARY.with_name('liboctavia_xdp_host.so')
# By default the one that tools/setup builds.
HEALTH_CHECKER = pathlib.Path(
    os.environ.get('OCTAVIA_XDP_HC') or
    BUILD / 'bin' / 'octavia-xdp-hc')

CONTROL = 'control'

MANAGEMENT_NETWORK = ipaddress.ip_network('192.0.2.0/24')
VIP_NETWORK = ipaddress.ip_network('203.0.113.0/24')
UPLINK_NETWORK = ipaddress.ip_network('198.18.1.0/24')
MEMBER_NETWORK = ipaddress.ip_network('198.18.10.0/24')
CLIENT_NETWORK = ipaddress.ip_network('198.18.20.0/24')
# Hypervisors: their uplinks, their tunnels, and the external network of
# tenants' routers.
HYPERVISOR_NETWORK = ipaddress.ip_network('198.18.30.0/24')
TUNNEL_NETWORK = ipaddress.ip_network('198.18.31.0/24')
PROVIDER_NETWORK = ipaddress.ip_network('198.18.32.0/24')
PROXY_NETWORK = ipaddress.ip_network('198.18.50.0/24')

VIP_NETWORK_V6 = ipaddress.ip_network('2001:db8:113::/64')
UPLINK_NETWORK_V6 = ipaddress.ip_network('2001:db8:1::/112')
MEMBER_NETWORK_V6 = ipaddress.ip_network('2001:db8:10::/64')
CLIENT_NETWORK_V6 = ipaddress.ip_network('2001:db8:20::/64')
HYPERVISOR_NETWORK_V6 = ipaddress.ip_network('2001:db8:30::/64')
PROXY_NETWORK_V6 = ipaddress.ip_network('2001:db8:50::/64')
# An underlay of hypervisors without IPv4.
UNDERLAY_NETWORK_V6 = ipaddress.ip_network('2001:db8:34::/64')
# Routed to hypervisor 1, 2, …: 2001:db8:33::1:0:0/96 and so on.
SID_NETWORK = ipaddress.ip_network('2001:db8:33::/64')

# NAT pools of LB nodes, a few addresses each.
NAT_NETWORK = ipaddress.ip_network('198.18.40.0/24')
NAT_NETWORK_V6 = ipaddress.ip_network('2001:db8:40::/112')

VIP_NETWORKS = f'{VIP_NETWORK},{VIP_NETWORK_V6}'
# Members of tests have addresses below the same /32.
MEMBER_NETWORKS = '198.18.0.0/15,2001:db8::/32'
# VMs on hypervisors: tenants choose their own networks of these.
TENANT_NETWORKS = '10.0.0.0/8,fd00::/8'

CONTROL_ADDRESS = str(MANAGEMENT_NETWORK[1])
MEMBER_GATEWAY = str(MEMBER_NETWORK[1])
CLIENT_GATEWAY = str(CLIENT_NETWORK[1])
CLIENT_ADDRESS = str(CLIENT_NETWORK[2])
MEMBER_GATEWAY_V6 = str(MEMBER_NETWORK_V6[1])
CLIENT_GATEWAY_V6 = str(CLIENT_NETWORK_V6[1])
CLIENT_ADDRESS_V6 = str(CLIENT_NETWORK_V6[2])
HYPERVISOR_GATEWAY = str(HYPERVISOR_NETWORK[1])
HYPERVISOR_GATEWAY_V6 = str(HYPERVISOR_NETWORK_V6[1])
UNDERLAY_GATEWAY_V6 = str(UNDERLAY_NETWORK_V6[1])
PROVIDER_GATEWAY = str(PROVIDER_NETWORK[1])
PROXY_GATEWAY = str(PROXY_NETWORK[1])
PROXY_GATEWAY_V6 = str(PROXY_NETWORK_V6[1])


class LabError(Exception):
    """An operation of the lab failed; the text says why."""


def number(host):
    """Return the number of a host, as 1 of 'lb1' or 'member1'."""
    match = re.search(r'\d+$', host)
    if not match:
        raise LabError(f'host name {host!r} does not end in a number')
    return int(match.group())


def management_address(host):
    """Return the management address: 192.0.2.11 of lb1, .31 of hv1, .51 of
    proxy1, …"""
    if host == CONTROL:
        return CONTROL_ADDRESS
    first = {'hv': 30, 'proxy': 50}.get(host.rstrip('0123456789'), 10)
    return str(MANAGEMENT_NETWORK[first + number(host)])


def uplink_addresses(node, version=4):
    """Return (node's address, router's address) on LB node 1, 2, …'s uplink.

    Its networks, a /30 and a /126, have four addresses each.
    """
    network = UPLINK_NETWORK if version == 4 else UPLINK_NETWORK_V6
    base = 4 * node
    return str(network[base + 2]), str(network[base + 1])


def nat_pools(node):
    """Return the NAT pools of LB node 1, 2, …, one for each family."""
    return [str(ipaddress.ip_network((network[2 * node],
                                      network.max_prefixlen - 1)))
            for network in (NAT_NETWORK, NAT_NETWORK_V6)]


def member_address(member, version=4):
    """Return the address of member 1, 2, …"""
    network = MEMBER_NETWORK if version == 4 else MEMBER_NETWORK_V6
    return str(network[10 + member])


def proxy_address(proxy, version=4):
    """Return the address of proxy node 1, 2, … on its uplink."""
    network = PROXY_NETWORK if version == 4 else PROXY_NETWORK_V6
    return str(network[10 + proxy])


def hypervisor_address(hypervisor, version=4):
    """Return the address of hypervisor 1, 2, … on its uplink."""
    network = HYPERVISOR_NETWORK if version == 4 else HYPERVISOR_NETWORK_V6
    return str(network[10 + hypervisor])


def underlay_address_v6(hypervisor):
    """Return the address of hypervisor 1, 2, … on the IPv6-only underlay."""
    return str(UNDERLAY_NETWORK_V6[10 + hypervisor])


def tunnel_address(hypervisor):
    """Return the address to which other hypervisors tunnel."""
    return str(TUNNEL_NETWORK[10 + hypervisor])


def sid_network(hypervisor):
    """Return the IPv6 network, a /96, that is routed to hypervisor 1, 2, …"""
    return ipaddress.ip_network((SID_NETWORK[hypervisor << 32], 96))


class Lab:
    """One named lab of this checkout.

    `directory` has configuration and data, `run_directory` has sockets (its
    path is short: a UNIX socket's path has at most 107 bytes) and files of
    servers that give up root, `logs` has a file for each process, `state` is
    the record of processes and addresses.
    """

    def __init__(self, name='demo'):
        if not re.fullmatch(r'[a-z0-9][a-z0-9-]{0,31}', name):
            raise LabError(f'{name!r} is no lab name: lower-case letters, '
                           'digits and dashes, 32 characters at most')
        self.name = name
        identity = f'{CHECKOUT}:{name}'.encode()
        self.id = hashlib.sha1(
            identity, usedforsecurity=False).hexdigest()[:6]
        self.prefix = f'oxp-{self.id}-'
        self.directory = BUILD / 'lab' / name
        self.run_directory = pathlib.Path('/run') / f'oxp-{self.id}'
        self.logs = self.directory / 'logs'
        self.state = state.State(self.directory / 'state.json')

    def __repr__(self):
        return f'<Lab {self.name} {self.id}>'

    def namespace(self, host):
        """Return the name of a host's network namespace."""
        return f'{self.prefix}{host}'

    def host_directory(self, host):
        """Return the directory for a host's files; create it if missing."""
        directory = self.directory / host
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def shared_directory(self, host):
        """Return the directory for files of a host's unprivileged servers.

        It is created if missing. It is not below the checkout, which other
        users may not be able to enter, as in root's home.
        """
        directory = self.run_directory / 'shared' / host
        for level in directory.parent, directory:
            level.mkdir(exist_ok=True)
            level.chmod(0o755)  # independent of the umask
        return directory

    def make_directories(self):
        """Create the lab's directories, without files of an older run."""
        self.remove_directories()
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.run_directory.mkdir()
        self.run_directory.chmod(0o755)

    def remove_directories(self):
        """Remove all files of the lab but its logs."""
        shutil.rmtree(self.run_directory, ignore_errors=True)
        if not self.directory.is_dir():
            return
        for entry in self.directory.iterdir():
            if entry == self.logs:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def lock(self):
        """Lock the lab for a change; refuse if another process holds it."""
        return held(self.directory.with_suffix('.lock'),
                    f'lab {self.name} is being changed by process {{}}; wait '
                    'for it to end')


@contextlib.contextmanager
def held(path, refusal):
    """Lock a file, and write this process's id into it.

    :param refusal: the error's text if another process holds the lock; {} is
        replaced by that process's id.
    :raises LabError: another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'a+') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise LabError(
                refusal.format(file.read().strip() or '?')) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield

# SPDX-License-Identifier: Apache-2.0
"""Network namespaces of a lab, their interfaces and processes.

A host is a network namespace with the loopback interface up. Names of
interfaces are local to their host: they are short and may repeat.
"""

import contextlib
import ctypes
import ipaddress
import os
import pathlib
import signal
import socket
import time

import pyroute2

from lab import paths
from lab import processes

MANAGEMENT_BRIDGE = 'mgmt'
MANAGEMENT_INTERFACE = 'mgmt'
NETNS = pathlib.Path('/run/netns')
CLONE_NEWNET = 0x40000000


def create(lab, host):
    """Create the namespace of a host."""
    processes.run(lab, None, ['ip', 'netns', 'add', lab.namespace(host)])
    with link(lab, host) as route:
        route.link('set', index=1, state='up')


def delete(lab, host):
    """Kill what runs in a host's namespace and remove the namespace."""
    kill_all(lab, host)
    processes.reap()
    processes.run(lab, None, ['ip', 'netns', 'delete', lab.namespace(host)])


def exists(lab, host):
    """Return whether the host's namespace exists."""
    return (NETNS / lab.namespace(host)).exists()


def hosts(lab):
    """Return the hosts of the lab that have a namespace."""
    if not NETNS.is_dir():
        return []
    return sorted(entry.name.removeprefix(lab.prefix)
                  for entry in NETNS.iterdir()
                  if entry.name.startswith(lab.prefix))


@contextlib.contextmanager
def link(lab, host):
    """Open a pyroute2 netlink connection in a host's namespace."""
    # pyroute2.NetNS forks, and its child could outlive this process.
    with inside(lab, host):
        route = pyroute2.IPRoute()
    with route:
        yield route


def inside(lab, host):
    """Create this thread's new sockets in a host's namespace."""
    return entered(lab.namespace(host))


@contextlib.contextmanager
def entered(name):
    """Create this thread's new sockets in a network namespace.

    Other threads are not affected.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with open('/proc/thread-self/ns/net') as outside:
        with open(NETNS / name) as within:
            _set_namespace(libc, within)
        try:
            yield
        finally:
            _set_namespace(libc, outside)


def veth(lab, end, other_end):
    """Connect two hosts by a veth pair, and bring up both ends.

    Each end is (host, interface name).
    """
    (host, name), (other_host, other_name) = end, other_end
    with (open(NETNS / lab.namespace(other_host)) as other,
          link(lab, host) as route):
        route.link('add', ifname=name, kind='veth', peer={
            'ifname': other_name, 'net_ns_fd': other.fileno()})
    up(lab, host, name)
    up(lab, other_host, other_name)


def bridge(lab, host, name, ports=()):
    """Create a bridge of a host's interfaces."""
    with link(lab, host) as route:
        route.link('add', ifname=name, kind='bridge')
        route.link('set', index=index(route, name), state='up')
        for port in ports:
            route.link('set', index=index(route, port),
                       master=index(route, name))


def join_bridge(lab, host, name, port):
    """Add an interface to a bridge of the same host."""
    with link(lab, host) as route:
        route.link('set', index=index(route, port),
                   master=index(route, name))


def up(lab, host, interface):
    """Bring an interface up."""
    with link(lab, host) as route:
        route.link('set', index=index(route, interface), state='up')


def address(lab, host, interface, cidr):
    """Add an address to an interface, as in '192.0.2.1/24'."""
    parsed = ipaddress.ip_interface(cidr)
    arguments = {'address': str(parsed.ip),
                 'prefixlen': parsed.network.prefixlen}
    if parsed.version == 6:
        arguments['flags'] = 0x02  # IFA_F_NODAD: usable at once
    with link(lab, host) as route:
        route.addr('add', index=index(route, interface), **arguments)


def route(lab, host, destination, via=None, interface=None):
    """Add a route; destination is a network or 'default'."""
    arguments = {'dst': destination}
    if destination == 'default' and via and ':' in via:
        arguments['family'] = socket.AF_INET6
    if via:
        arguments['gateway'] = via
    with link(lab, host) as netlink:
        if interface:
            arguments['oif'] = index(netlink, interface)
        netlink.route('add', **arguments)


def sysctl(lab, host, **settings):
    """Set sysctls of a host, as in net__ipv4__ip_forward=1.

    Two underscores stand for a dot.
    """
    assignments = [f'{name.replace("__", ".")}={value}'
                   for name, value in settings.items()]
    processes.run(lab, host, ['sysctl', '-qw', *assignments])


def join_management(lab, host):
    """Connect a host to the management network; return its address."""
    ip = paths.management_address(host)
    port = f'to-{host}'[:15]
    veth(lab, (host, MANAGEMENT_INTERFACE), (paths.CONTROL, port))
    join_bridge(lab, paths.CONTROL, MANAGEMENT_BRIDGE, port)
    prefix = paths.MANAGEMENT_NETWORK.prefixlen
    address(lab, host, MANAGEMENT_INTERFACE, f'{ip}/{prefix}')
    lab.state.put('addresses', host, {'management': ip})
    return ip


def processes_in(lab, host):
    """Return the ids of all processes in a host's namespace."""
    try:
        wanted = (NETNS / lab.namespace(host)).stat().st_ino
    except FileNotFoundError:
        return []
    pids = []
    for entry in os.listdir('/proc'):
        if not entry.isdigit():
            continue
        try:
            inode = os.stat(f'/proc/{entry}/ns/net').st_ino
        except OSError:  # It has ended, or belongs to another user.
            continue
        if inode == wanted:
            pids.append(int(entry))
    return pids


def kill_all(lab, host, timeout=10):
    """Kill all processes in a host's namespace and wait for their end."""
    deadline = time.monotonic() + timeout
    while True:
        alive = [pid for pid in processes_in(lab, host)
                 if processes.start_time(pid)]
        if not alive:
            return
        if time.monotonic() > deadline:
            raise paths.LabError(f'processes {alive} of host {host} do not '
                                 'end')
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _set_namespace(libc, file):
    if libc.setns(file.fileno(), CLONE_NEWNET) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def index(route, interface):
    """Return the index of an interface, through a netlink connection."""
    try:
        indexes = route.link_lookup(ifname=interface)
    except pyroute2.NetlinkError:
        indexes = None
    if not indexes:
        raise paths.LabError(f'no interface {interface}')
    return indexes[0]

# SPDX-License-Identifier: Apache-2.0
"""The lab's client, router and members with LB nodes of the library.

    client ── router ══ lb1, lb2, lb3
                 └───── member1 …

The nodes' tables are set as by agents and result handlers. The router has a
route through each node in service, and spreads connections over them by a hash
whose seed can be changed.
"""

import contextlib
import pathlib
import threading

from lab import namespaces
from lab import parallel
from lab import paths
from lab import processes
from lab.fabric import client
from lab.fabric import links
from lab.fabric import members
from lab.fabric import nodes
from lab.fabric import router
from octavia_xdp_provider.node import datapath
from octavia_xdp_provider.node import upgrade

VIP = str(paths.VIP_NETWORK[10])
PORT = 80
KEY = datapath.Key(VIP, 'TCP', PORT)
# Map sizes of each node.
SIZES = {'members_max': 64, 'slots_max': 1 << 16}
# The default of nodes.
ICMP_RATE = 1000
# The interval of the result handler's ticks.
AGE_S = 1.0
# IP version of members, by encapsulation.
VERSIONS = {datapath.Encapsulation.GUE: 4, datapath.Encapsulation.GENEVE: 4,
            datapath.Encapsulation.SRV6: 6}


class Node:
    """An LB node. ``serving``: whether the router should use it.

    :param libraries: libraries of different layouts, which replace each other.
    """

    def __init__(self, lab, name, sizes, libraries):
        self.name = name
        self.address = nodes.address(name)
        self.serving = True
        self._lab = lab
        self._sizes = sizes
        self._libraries = list(libraries)
        nodes.create(lab, name)
        self.datapath = self._open()

    def _open(self):
        lab = self._lab
        opened = datapath.Datapath(
            *self._paths, create=True, services_max=16,
            library=str(self._libraries[0]), **self._sizes)
        with namespaces.link(lab, self.name) as netlink:
            index = namespaces.index(netlink, links.UPLINK)
            own, = netlink.get_links(index)
        with namespaces.link(lab, links.ROUTER) as netlink:
            other, = netlink.get_links(namespaces.index(netlink, self.name))
        next_hop = other.get_attr('IFLA_ADDRESS')
        with namespaces.inside(lab, self.name):
            opened.set_uplinks([datapath.Uplink(
                index, links.FABRIC_MTU, own.get_attr('IFLA_ADDRESS'),
                next_hop, next_hop)])
            opened.attach(index)
        opened.set_node(datapath.NodeSettings(
            self.address, nodes.address(self.name, 6), icmp_rate=ICMP_RATE,
            flags=datapath.NodeFlag.CLAMP_MSS))
        return opened

    @property
    def _paths(self):
        """Paths of pins and lock."""
        return (str(nodes.pin_directory(self._lab, self.name)),
                str(nodes.run_directory(self._lab, self.name) / 'lock'))

    def replace(self):
        """Let the next library take over the tables while packets flow."""
        before, *others = self._libraries
        self._libraries = [*others, before]
        with namespaces.inside(self._lab, self.name):
            upgrade.upgrade(*self._paths, str(self._libraries[0]),
                            from_library=str(before))
        self.restart()

    def set_link(self, state):
        """Set the router's end of its link 'up' or 'down'."""
        processes.run(self._lab, links.ROUTER,
                      ['ip', 'link', 'set', self.name, state])

    def restart(self):
        """Restart, as the processes of a node do."""
        self.datapath.close()
        self.datapath = self._open()

    def boot(self):
        """Lose all state, as a rebooted machine does."""
        self.datapath.close()
        with namespaces.link(self._lab, self.name) as netlink:
            index = namespaces.index(netlink, links.UPLINK)
        processes.run(self._lab, self.name, [
            'ip', 'link', 'set', 'dev', str(index), 'xdp', 'off'],
            check=False)
        pins = nodes.pin_directory(self._lab, self.name)
        for path in sorted(pins.rglob('*'), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        pins.rmdir()
        self.datapath = self._open()


class Bed:
    """A context manager for use in separate namespaces (bench.engine.alone).

    ``settings``: datapath.Settings of the service, from the next change on.

    :param libraries: used by nodes in turn; the first one creates the maps.
    """

    def __init__(self, node_count, member_count, settings,
                 libraries=(paths.LIBRARY,)):
        self.lab = paths.Lab('hitless')
        self.settings = settings
        self.nodes = []
        self.members = [f'member{number}'
                        for number in range(1, member_count + 1)]
        self._node_names = [f'lb{number}'
                            for number in range(1, node_count + 1)]
        self._libraries = libraries
        self._seed = 1
        self._ageing = threading.Thread(target=self._age, daemon=True)
        self._ending = threading.Event()
        self._lock = threading.Lock()  # of nodes' handles
        self.weights, self.down = {}, set()
        self.failure = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.lab.make_directories()
            stack.callback(self._remove)
            router.create(self.lab)
            self._hash_packet_fields()
            client.create(self.lab)
            parallel.together(*(
                lambda member=member: self._create_member(member)
                for member in self.members))
            for name in self._node_names:
                self.nodes.append(self._create_node(name))
            self.route()
            self._ageing.start()
            stack.pop_all()
        return self

    def _hash_packet_fields(self):
        """Hash addresses, protocol and ports (0x37). Otherwise the router uses
        the hash of the client's socket, which packets keep across namespaces:
        it does not depend on the seed, but changes after a timeout.
        """
        namespaces.sysctl(self.lab, links.ROUTER,
                          net__ipv4__fib_multipath_hash_fields=0x37,
                          net__ipv4__fib_multipath_hash_policy=3)

    def _create_member(self, member):
        members.create(self.lab, member, hands_on=True, udp=False, vips=[VIP])

    def _create_node(self, name):
        return Node(self.lab, name, SIZES, self._libraries)

    def __exit__(self, *_exception):
        self._ending.set()
        self._ageing.join()
        self._remove()

    def _remove(self):
        for node in self.nodes:
            node.datapath.close()
        for host in namespaces.hosts(self.lab):
            namespaces.delete(self.lab, host)
        for node in self.nodes:
            processes.run(self.lab, None, [
                'umount', '-l',
                nodes.run_directory(self.lab, node.name) / 'bpf'])
        self.lab.remove_directories()

    def _age(self):
        while not self._ending.wait(AGE_S):
            try:
                with self._lock:
                    for node in self.nodes:
                        node.datapath.tick()
            except datapath.DatapathError as error:
                self.failure = error
                return

    # Members

    def member(self, name, weight):
        """Return a member as it is in tables."""
        return datapath.Member(
            members.address(name, VERSIONS[self.settings.encapsulation]),
            weight, check=paths.number(name))

    def set_members(self, weights, down=()):
        """Set weights by member on all nodes. ``down``: dead members."""
        for member in self.down - set(down):
            self._set_member_link(member, 'up')
        for member in set(down) - self.down:
            self._set_member_link(member, 'down')
        self.weights, self.down = dict(weights), set(down)
        with self._lock:
            for node in self.nodes:
                self._set(node, weights)

    def _set(self, node, weights):
        node.datapath.set_service(KEY, [
            self.member(name, weight) for name, weight in weights.items()],
            self.settings)
        node.datapath.apply_health(
            [(paths.number(member), member not in self.down)
             for member in weights])

    def _set_member_link(self, member, state):
        processes.run(self.lab, links.ROUTER,
                      ['ip', 'link', 'set', member, state])

    def table(self):
        """Return each slot's member for new connections on every node."""
        names = {self.member(name, 0).address: name for name in self.members}
        tables = [node.datapath.table(KEY) for node in self.nodes]
        if any(table != tables[0] for table in tables):
            raise RuntimeError('the nodes\' tables differ')
        return [names.get(address) for address in tables[0]]

    def open_slots(self):
        if self.failure:
            raise self.failure
        return sum(node.datapath.service(KEY).open_slots
                   for node in self.nodes)

    def settle(self):
        """Wait until no slot is open on any node."""
        processes.wait_for('end of open slots', lambda: not self.open_slots(),
                           120, 0.2)

    def handed_on(self):
        """Return packets that reached a member without their connection."""
        return sum(self._counters(member)['handed_on']
                   for member in self.members)

    def _counters(self, member):
        """Return counters of the member's program, by name."""
        shown = processes.run(self.lab, member, [
            links.DECAPSULATE, 'show', links.UPLINK]).stdout
        return {words[0]: int(words[1]) for words in map(
            str.split, shown.splitlines())
            if len(words) == 2 and words[1].isdigit()}

    # Nodes

    def route(self):
        """Route packets for the VIP to the nodes in service."""
        hops = []
        for node in self.nodes:
            if node.serving:
                hops += ['nexthop', 'via', node.address, 'dev', node.name]
        processes.run(self.lab, links.ROUTER,
                      ['ip', 'route', 'replace', f'{VIP}/32', *hops])

    def reshuffle(self):
        """Make the router redistribute all connections."""
        self._seed += 1
        namespaces.sysctl(self.lab, links.ROUTER,
                          net__ipv4__fib_multipath_hash_seed=self._seed)

    def restart(self, node):
        with self._lock:
            node.restart()
            self._set(node, self.weights)

    def boot(self, node):
        with self._lock:
            node.boot()
            self._set(node, self.weights)

    def replace(self, node):
        with self._lock:
            node.replace()
            self._set(node, self.weights)


def has_hash_seed():
    """Whether the kernel has a seed for the hash of routes (6.11)."""
    return pathlib.Path(
        '/proc/sys/net/ipv4/fib_multipath_hash_seed').exists()

# SPDX-License-Identifier: Apache-2.0
"""Links of a DevStack host, and cables to other hosts, which are tunnels."""

from lab import paths
from lab import processes

PORT = 4789
# Of packets that fit in a tunnel over links of 1500. The kernel does not
# fragment larger ones: it answers with an ICMP message.
MTU = 1450
# VXLAN ids: LB node 3 has 4203, hypervisor 3 has 4303.
NODES, HYPERVISORS = 4200, 4300
# Much more than the removal of a tunnel takes.
GONE_S = 60


def ip(lab, *words):
    """Run ip(8) in the host's own namespace."""
    processes.run(lab, None, ['ip', *words])


def lay(site, name, number, remote, mtu, namespace=None):
    """Create this host's end of a cable; its packets leave from the host.

    :param number: the VXLAN id.
    :param remote: the address of the host with the other end.
    :param namespace: the lab's host for this end; None: the host itself.
    """
    where = (() if namespace is None
             else ('netns', site.lab.namespace(namespace)))
    # A tunnel in a deleted namespace may exist a moment longer than its name.
    processes.wait_for(
        f'the end of an earlier tunnel {number}', lambda: _is_new(
            site.lab, name, *where, 'mtu', mtu, 'type', 'vxlan',
            'id', number, 'remote', remote,
            'local', site.value('OCTAVIA_XDP_HOST_ADDRESS'),
            'dstport', PORT), GONE_S)


def _is_new(lab, *words):
    try:
        ip(lab, 'link', 'add', *words)
    except paths.LabError as error:
        if 'already exists' not in str(error):
            raise
        return False
    return True


def of_node(node):
    """Return the VXLAN id of an LB node's tunnel."""
    return NODES + paths.number(node)

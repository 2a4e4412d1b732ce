# SPDX-License-Identifier: Apache-2.0
"""Links of a host of DevStack, and cables to other hosts, which are tunnels.
"""

from lab import paths
from lab import processes

PORT = 4789
# Of packets that a link of 1500 takes in a tunnel. The kernel says so to
# whoever sends larger ones that may not be fragmented, and does not fragment.
MTU = 1450
# VXLAN's, of LB node 3 and of hypervisor 3: 4203 and 4303.
NODES, HYPERVISORS = 4200, 4300
# Far above what it takes.
GONE_S = 60


def ip(lab, *words):
    """Run ip(8) in the host's own namespace."""
    processes.run(lab, None, ['ip', *words])


def lay(site, name, number, remote, mtu, namespace=None):
    """Make this host's end of a cable; packets leave from the host itself.

    :param number: VXLAN's.
    :param remote: the address of the host with the other end.
    :param namespace: of the lab, where the end is; None: the host's own.
    """
    where = (() if namespace is None
             else ('netns', site.lab.namespace(namespace)))
    # What was in a namespace goes a moment after its name.
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
    """The number of an LB node's tunnel."""
    return NODES + paths.number(node)

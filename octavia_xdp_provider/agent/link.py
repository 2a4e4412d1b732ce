# SPDX-License-Identifier: Apache-2.0
"""The link of an LB node to the controller."""

from octavia_xdp_provider.common import link
from octavia_xdp_provider.common import messages
from octavia_xdp_provider.common import rpc
from octavia_xdp_provider.node import datapath


class Link(link.Link):
    """See there.

    :param controller: rpc.NodesClient.
    :param worker: worker.Worker.
    :param state: node_state.NodeState.
    :param files: run_directory.RunDirectory.
    """

    unreadable = datapath.DatapathError

    def complain(self, error):
        if rpc.is_unsupported_version(error):
            older = ' or '.join(reversed(rpc.NODES_VERSIONS[:-1]))
            return ('The controller does not know the version of the '
                    'interface for nodes that this node speaks '
                    f'({rpc.NODES_VERSION}, unless configured). Until it is '
                    f'upgraded, set [upgrade_levels] nodes = {older} on this '
                    'node.')
        if rpc.is_refused(error):
            return f'The controller refuses what this node says: {error}'
        return super().complain(error)

    def distrusted(self, held, problems):
        return distrusted(held, problems)


def distrusted(held, problems):
    """What a node with problems reports: nobody waits for it, or believes
    what it says of members.

    :param held: id → messages.Held.
    """
    if not problems:
        return held
    error = problems[0][:messages.TEXT_MAX]
    return {key: {**one, 'error': one['error'] or error,
                  'members': dict.fromkeys(one['members'], 'unknown')}
            for key, one in held.items()}

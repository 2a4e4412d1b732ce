# SPDX-License-Identifier: Apache-2.0
"""Makes load balancers without XDP receive what an XDP program sends.

A veth device accepts frames that XDP has sent at the other end only while it
has a program itself (see lab/fabric/links.py). If the software under test has
none, it gets the members' program, which passes all packets that it is not
configured for; the cost is part of the figures of such software.
"""

from collections.abc import Iterator
import contextlib
import json

from bench.beds import interface as beds
from bench.software import topology
from bench.traffic import member_tool


@contextlib.contextmanager
def ready(bed: beds.Bed) -> Iterator[None]:
    """Make all load balancers receive until the context ends."""
    with contextlib.ExitStack() as stack:
        for host in bed.by_role(beds.LOAD_BALANCER):
            for interface in topology.front(bed, host):
                if _needs_program(host, interface.name):
                    tool = member_tool.find_or_copy(host)
                    host.run([tool, 'setup', '--any-source', '--mss', 'off',
                              interface.name])
                    stack.callback(host.run, [tool, 'remove', interface.name],
                                   check=False)
        yield


def _needs_program(host, name):
    link, = json.loads(host.run(
        ['ip', '-details', '-json', 'link', 'show', 'dev', name]).stdout)
    return 'xdp' not in link and (
        link.get('linkinfo', {}).get('info_kind') == 'veth')

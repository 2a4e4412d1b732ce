# SPDX-License-Identifier: Apache-2.0
"""Load balancers without XDP that receive what an XDP program sends.

A veth device takes frames that XDP sent at the other end only while it has a
program itself (lab/fabric/links.py says why). Where software under test has
none, it gets the members' program here, which passes everything that it is not
told about; what that costs is in the figures of such software.
"""

from collections.abc import Iterator
import contextlib
import json

from bench.beds import interface as beds
from bench.software import topology
from bench.traffic import member_tool


@contextlib.contextmanager
def ready(bed: beds.Bed) -> Iterator[None]:
    """All load balancers receive until the context ends."""
    with contextlib.ExitStack() as stack:
        for host in bed.by_role(beds.LOAD_BALANCER):
            for one in topology.front(bed, host):
                if _is_deaf(host, one.name):
                    tool = member_tool.find_or_copy(host)
                    host.run([tool, 'setup', '--any-source', '--mss', 'off',
                              one.name])
                    stack.callback(host.run, [tool, 'remove', one.name],
                                   check=False)
        yield


def _is_deaf(host, name):
    found, = json.loads(host.run(
        ['ip', '-details', '-json', 'link', 'show', 'dev', name]).stdout)
    return 'xdp' not in found and (
        found.get('linkinfo', {}).get('info_kind') == 'veth')

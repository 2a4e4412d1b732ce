# SPDX-License-Identifier: Apache-2.0
"""Who may connect where in the traffic namespace.

Each HAProxy may open connections to its own members and to nothing else, even
if it has been taken over. Only a segment that opens a connection is looked
up: without capabilities no process can send any other one that does not
belong to a connection, so that the kernel need not track connections. What
the kernel sends itself, and processes with a uid outside the range, are not
concerned.
"""

import ipaddress
import json

from oslo_log import log as logging

from octavia_xdp_provider.proxy.launcher import namespace

LOG = logging.getLogger(__name__)

TABLE = 'octavia_xdp_proxy'
_SETS = {4: 'members4', 6: 'members6'}

# uid, address, port
Element = tuple[int, str, int]

_RULES = '''
table inet {table} {{
  set members4 {{ typeof meta skuid . ip daddr . tcp dport; }}
  set members6 {{ typeof meta skuid . ip6 daddr . tcp dport; }}
  chain output {{
    type filter hook output priority filter; policy accept;
    meta skuid {first}-{last} goto confined
  }}
  chain confined {{
    meta l4proto tcp tcp flags & (syn | ack) != syn accept
    meta skuid . ip daddr . tcp dport @members4 accept
    meta skuid . ip6 daddr . tcp dport @members6 accept
    meta l4proto tcp counter reject with tcp reset
    counter drop
  }}
}}
'''


class Firewall:
    """The table, with one element for each load balancer and member.

    :param first: first and last uid of HAProxy processes.
    """

    def __init__(self, traffic: namespace.Namespace, first: int, last: int
                 ) -> None:
        self._namespace = traffic
        self._range = first, last
        self._applied: set[Element] | None = None

    def make(self) -> None:
        """Create the table, or replace its rules; the sets keep their
        elements, so that nobody is refused meanwhile.

        :raises Failure: nft refuses it.
        """
        rules = _RULES.format(table=TABLE, first=self._range[0],
                              last=self._range[1])
        self._change(f'add table inet {TABLE}\n'
                     f'add chain inet {TABLE} output '
                     '{ type filter hook output priority filter; }\n'
                     f'add chain inet {TABLE} confined\n'
                     f'flush chain inet {TABLE} output\n'
                     f'flush chain inet {TABLE} confined\n' + rules)

    def apply(self, elements: set[Element]) -> None:
        """Make the sets have exactly these elements, in one transaction.

        :raises Failure: nft refuses it; nothing has changed.
        """
        if self._applied is None:
            # The rules are not only missing at the start: somebody may have
            # flushed all tables of the namespace.
            self.make()
            self._applied = self._list()
        added = elements - self._applied
        removed = self._applied - elements
        if not added and not removed:
            return
        # Whatever happens to the command, the next time compares again.
        self._applied = None
        self._change(_lines('add', added) + _lines('delete', removed))
        self._applied = set(elements)
        LOG.debug('Members: %s added, %s removed.', len(added), len(removed))

    def forget(self) -> None:
        """Compare with the kernel at the next ``apply``."""
        self._applied = None

    def _list(self) -> set[Element]:
        result = set()
        for name in _SETS.values():
            listed = json.loads(self._run(['-j', 'list', 'set', 'inet', TABLE,
                                           name]))
            for item in listed['nftables']:
                for element in item.get('set', {}).get('elem', ()):
                    number, address, port = element['concat']
                    result.add((int(number), str(ipaddress.ip_address(
                        address)), int(port)))
        return result

    def _change(self, text: str) -> None:
        self._run(['-f', '-'], text)

    def _run(self, arguments: list[str], text: str = '') -> str:
        with self._namespace.entered():
            return namespace.run(['nft', '--numeric', *arguments], text)


def _lines(verb: str, elements: set[Element]) -> str:
    lines = []
    for version, name in _SETS.items():
        texts = [f'{number} . {address} . {port}'
                 for number, address, port in sorted(elements)
                 if ipaddress.ip_address(address).version == version]
        if texts:
            lines.append(f'{verb} element inet {TABLE} {name} '
                         f'{{ {", ".join(texts)} }}\n')
    return ''.join(lines)

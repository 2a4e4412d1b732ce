# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl upgrade: another library takes over, as packets flow."""

import argparse
from collections.abc import Iterator
import socket

from octavia_xdp_provider.ctl import node as nodes
from octavia_xdp_provider.ctl import output
from octavia_xdp_provider.node import upgrade


def run(arguments: argparse.Namespace) -> int:
    """Return 0 if the library has taken over, or with --dry-run would."""
    place = nodes.locate(arguments)
    done = upgrade.upgrade(
        place.pin_directory, place.lock_file, library=place.library,
        from_library=arguments.from_library, dry_run=arguments.dry_run)
    if arguments.json:
        print(output.dump({
            **done._asdict(), 'dry_run': arguments.dry_run,
            'interfaces': [{'name': _name(interface.index),
                            **interface._asdict()}
                           for interface in done.interfaces]}))
    else:
        print('\n'.join(_lines(done, arguments.dry_run)))
    return 0


def _name(index: int) -> str:
    """Return an interface's name; its index if it is in another namespace."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return f'#{index}'


def _lines(done: upgrade.Upgrade, dry_run: bool) -> Iterator[str]:
    if not done.changes:
        yield (f'nothing to do: layout {done.layout_after}, program '
               f'{done.tag_after} on all interfaces')
        return
    rows = [('layout', str(done.layout_before), str(done.layout_after))]
    rows += [(_name(interface.index), interface.tag_before,
              done.tag_after if interface.changes else 'stays')
             for interface in done.interfaces]
    yield output.table(('', 'BEFORE', 'AFTER'), rows)
    if done.interfaces_more:
        yield f'and {done.interfaces_more} more interfaces'
    if not done.interfaces:
        yield f'no interface has a program; {done.tag_after} loads'
    yield f'services      {done.services} with {done.members} members'
    if done.layout_before != done.layout_after:
        yield (f'maps          {done.maps_new} new, {done.maps_handed} handed '
               'over as they are')
        yield (f'memory        {output.short(done.map_bytes)}B for new maps, '
               'beside the old ones until the end')
    yield ('nothing was changed (--dry-run)' if dry_run else
           'done: users of the state before open it again')

# SPDX-License-Identifier: Apache-2.0
"""octavia-xdp-ctl upgrade: another library takes over, as packets flow."""

import socket

from octavia_xdp_provider.agent import takeover
from octavia_xdp_provider.ctl import node as nodes
from octavia_xdp_provider.ctl import output


def run(arguments):
    """0: the library is in charge, or with --dry-run would be."""
    place = nodes.locate(arguments)
    done = takeover.upgrade(
        place.pin_directory, place.lock_file, library=place.library,
        from_library=arguments.from_library, dry_run=arguments.dry_run)
    if arguments.json:
        print(output.dump({**done._asdict(), 'dry_run': arguments.dry_run,
                           'interfaces': _names(done)}))
    else:
        print('\n'.join(_lines(done, arguments.dry_run)))
    return 0


def _names(done):
    """Indices are of another network namespace at worst, never hidden."""
    names = []
    for index in done.interfaces:
        try:
            names.append(socket.if_indextoname(index))
        except OSError:
            names.append(f'#{index}')
    return names


def _lines(done, dry_run):
    if not done.changes:
        yield (f'nothing to do: layout {done.layout_after}, program '
               f'{done.tag_after} on all interfaces')
        return
    rows = [('layout', done.layout_before, done.layout_after),
            ('program', done.tag_before, done.tag_after)]
    yield output.table(('', 'BEFORE', 'AFTER'), rows)
    yield f'services      {done.services} with {done.members} members'
    yield 'interfaces    ' + (', '.join(_names(done)) or 'none')
    if done.layout_before != done.layout_after:
        yield (f'maps          {done.maps_new} new, {done.maps_handed} handed '
               'over as they are')
        yield (f'memory        {output.short(done.map_bytes)}B for new maps, '
               'beside the old ones until the end')
    yield ('nothing was changed (--dry-run)' if dry_run else
           'done: users of the state before open it again')

# SPDX-License-Identifier: Apache-2.0
"""Print lost packets as tables, or as lines of JSON for programs."""

import json
import shutil
import time

from octavia_xdp_provider.drops import rows

HEAD = ('PER SECOND', 'TOTAL', 'SOURCE', 'VIP', 'REASON', 'WHERE', 'PACKETS')
HEIGHT_MIN = 3  # lines of a table: head, worst row, number of hidden rows
NUMBER_COLUMNS = 2  # the first columns, aligned to the right
CLEAR_SCREEN = '\x1b[H\x1b[2J'
MISSED = 'not listed: too many kinds of drops at once'


def _interface(row):
    if row.interface:
        return row.interface
    if row.ifindex is None:
        return None
    place = f' of namespace {row.namespace}' if row.namespace else ''
    return f'interface {row.ifindex}{place}'


def details(row):
    """Return the last column: a description of the row's packets."""
    parts = []
    if row.protocol:
        parts.append(f'{row.protocol} {row.direction} the VIP')
    if row.encapsulation:
        parts.append(f'in {row.encapsulation}')
    if interface := _interface(row):
        parts.append(interface)
    if row.to_ifindex:
        parts.append(f'towards interface {row.to_ifindex}')
    if row.action and row.action != row.reason:
        parts.append(row.action)
    if row.program_id:
        parts.append(f'program {row.program or "without a name"} '
                     f'(id {row.program_id})')
    if row.source == rows.DATAPATH:
        parts.append('all VIPs of the node')
    if row.source == rows.HOST:
        parts.append(f'port {row.port}' if row.port else 'of no port')
    return ', '.join(parts)


def table(lost, seconds, height=None):
    """Return the lines of a table.

    :param seconds: time in which Lost.packets were lost.
    :param height: maximal number of lines, but HEIGHT_MIN at least.
    """
    lines = [HEAD] + [
        (f'{packets / seconds:.1f}', str(total), row.source,
         row.vip or '-', row.reason, row.where or '-', details(row))
        for row, packets, total in lost]
    hidden = 0
    if height is not None and len(lines) > max(height, HEIGHT_MIN):
        hidden = len(lines) - max(height, HEIGHT_MIN) + 1
        del lines[-hidden:]
    widths = [max(len(line[column]) for line in lines)
              for column in range(len(HEAD) - 1)]
    text = []
    for line in lines:
        cells = [cell.rjust(width) if column < NUMBER_COLUMNS
                 else cell.ljust(width) for column, (cell, width) in enumerate(
                     zip(line, widths, strict=False))]
        text.append('  '.join([*cells, line[-1]]).rstrip())
    if hidden:
        text.append(f'… {hidden} more; --json shows all')
    return text


def amount(count, noun):
    return f'{count} {noun}{"" if count == 1 else "s"}'


class Tables:
    """Prints tables; on a terminal each replaces the one before."""

    def __init__(self, file):
        self._file = file
        self._live = file.isatty()
        self._watching = ''

    def start(self, vips, sources):
        self._watching = (f'{amount(len(vips), "VIP")}; '
                          f'sources: {", ".join(sources)}')
        self._print([f'Watching {self._watching}. Ctrl-C ends.'])

    def refresh(self, lost, seconds, missed, vips=()):
        packets = sum(entry.packets for entry in lost)
        total = sum(entry.total for entry in lost)
        lines = [f'{time.strftime("%H:%M:%S")}  '
                 f'{amount(packets, "packet")} lost in {seconds:.1f} s, '
                 f'{total} since the start']
        size = shutil.get_terminal_size()
        if lost:
            # Leave room for the first line, missed, an empty line, cursor.
            lines += table(lost, seconds,
                           size.lines - 4 if self._live else None)
        if missed:
            lines.append(f'{amount(missed, "packet")} {MISSED}')
        if self._live:
            lines = [line[:size.columns] for line in lines]
            lines[0] = CLEAR_SCREEN + lines[0]
        self._print([*lines, ''])

    def end(self, why, seconds, total):
        self._print([f'Ended ({why}): {amount(total, "packet")} lost in '
                     f'{seconds:.1f} s.'])

    def _print(self, lines):
        print('\n'.join(lines), file=self._file, flush=True)


class JsonLines:
    """Prints one object per line; `type` is start, drops or end."""

    def __init__(self, file):
        self._file = file

    def start(self, vips, sources):
        self._print(type='start', vips=sorted(vips), sources=list(sources))

    def refresh(self, lost, seconds, missed, vips=()):
        self._print(
            type='drops', seconds=round(seconds, 3), vips=sorted(vips),
            missed=missed,
            drops=[{'packets': packets, 'total': total, **row._asdict()}
                   for row, packets, total in lost])

    def end(self, why, seconds, total):
        self._print(type='end', why=why, seconds=round(seconds, 3),
                    total=total)

    def _print(self, **fields):
        print(json.dumps({'time': round(time.time(), 3), **fields}),
              file=self._file, flush=True)

# SPDX-License-Identifier: Apache-2.0
"""The result as a table for people."""

COLUMNS = {
    'encapsulation': 'encapsulation', 'second_chance': 'second chance',
    'connections': 'live at a time',
    'opened': 'connections', 'changes': 'changes of members',
    'node_changes': 'changes of nodes', 'broken': 'broken',
    'broken_of_dead_members': 'broken, of dead members',
    'broken_of_failed_nodes': 'broken, of failed nodes',
    'beyond': 'of more owners than are known',
    'broken_beyond': 'broken of these', 'not_opened': 'not opened',
    'handed_on': 'packets handed on'}


def markdown(runs):
    lines = [_row(COLUMNS.values()), _row('---' for _ in COLUMNS)]
    lines += [_row(run.get(name, '') for name in COLUMNS) for run in runs]
    return '\n'.join(lines)


def _row(cells):
    return f'| {" | ".join(map(str, cells))} |'

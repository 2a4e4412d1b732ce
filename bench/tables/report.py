# SPDX-License-Identifier: Apache-2.0
"""The figures for people and for programs."""

import statistics


def _text(samples):
    return f'{min(samples):.2f} / {statistics.median(samples):.2f}'


def figures(library, through_handler):
    """What goes to the JSON file: the least of all rounds."""
    return {
        'updates': [
            {'members': one['members'],
             'up_ms': round(min(changes['up'])[0], 3),
             'down_ms': round(min(changes['down'])[0], 3),
             'baseline_up_ms': round(min(one['baseline_up']), 3)}
            for one, changes in _pairs(library, through_handler)],
        'one_table': [
            {'slots': one['slots'], 'members': one['members'],
             'weighted': one['weighted'],
             'us': round(1000 * min(one['build']), 1)}
            for one in library['one_table']],
    }


def _pairs(library, through_handler):
    return [(one, through_handler[one['members']])
            for one in library['updates']]


def markdown(library, through_handler):
    """All figures as Markdown: least and median of all rounds."""
    lines = [
        '## Tables', '',
        'Milliseconds, least / median. *queue* is from the rename of the '
        "queue's file to the last switched table, *library* the library's "
        'call alone, *entries* the same tables written as array entries in '
        'batches; CPU is that of all threads of the process.', '',
        '| member changes | queue, up | CPU | queue, down | CPU '
        '| library, up | CPU | library, down | CPU | entries, up |',
        '|---|---|---|---|---|---|---|---|---|---|']
    for one, changes in _pairs(library, through_handler):
        cells = [_text(samples) for samples in (
            *zip(*changes['up'], strict=True),
            *zip(*changes['down'], strict=True), one['up'], one['up_cpu'],
            one['down'], one['down_cpu'], one['baseline_up'])]
        lines.append(f'| {one["members"]} | {" | ".join(cells)} |')
    lines += ['', '| one table | µs, least / median |', '|---|---|']
    for one in library['one_table']:
        weights = ', unequal weights' if one['weighted'] else ''
        microseconds = [1000 * took for took in one['build']]
        lines.append(f'| {one["slots"]} slots, {one["members"]} members'
                     f'{weights} | {_text(microseconds)} |')
    resync = library['resync']
    lines += [
        '', f'Resync of {resync["services"]} services with '
        f'{resync["members"]} members, ms: from nothing '
        f'{_text(resync["empty"])}, unchanged {_text(resync["unchanged"])}, '
        f'a member less in each {_text(resync["one_less"])}.']
    return '\n'.join(lines)

# SPDX-License-Identifier: Apache-2.0
"""The figures for people and for programs."""

# case → (figure, what it says, unit, aim: at most, or at least)
AIMS = {
    'api_to_map': (
        ('p50_ms', 'API call answered → switched on every node, p50', 'ms',
         150),
        ('p99_ms', 'the same, p99', 'ms', 500)),
    'create_active': (
        ('p50_s', 'creation → ACTIVE, alone, p50', 's', 1),
        ('populated_p50_s', 'the same, fully populated', 's', None)),
    'burst': (
        ('p50_s', 'driver call stored → ACTIVE sent, or removed from all '
         'nodes, p50', 's', 1),
        ('p99_s', 'the same, p99', 's', 3),
        ('deletions_sent_p50_s', 'deletion stored → DELETED sent, with '
         'Octavia\'s share, p50', 's', None),
        ('deletions_sent_p99_s', 'the same, p99', 's', None)),
    'cold_node': (
        ('seconds', 'a node that starts empty → tables of all', 's', 5),),
    'idle_pass': (
        ('cpu_ms', 'CPU of a pass without a change', 'ms', 50),),
    'fleet': (
        ('cores', 'the controller, cores', '', 1),
        ('rss_mb', 'its memory', 'MB', None),
        ('resync_s', 'a comparison with Octavia\'s list', 's', None),
        ('changes_per_s', 'changes that became ACTIVE, a second', '', 20)),
}
AT_LEAST = {'changes_per_s'}
# A pace is kept if a change of the last second is still under way.
_PACE = 0.99


def markdown(results):
    """All figures as Markdown.

    :param results: case → (figures, further ones).
    """
    lines = ['## Control plane', '',
             '| case | what | figure | aim | |', '|---|---|---|---|---|']
    for case, (figures, _more) in results.items():
        for name, text, unit, aim in AIMS[case]:
            lines.append(f'| {case} | {text} | {figures[name]} {unit} '
                         f'| {_aim(name, unit, aim)} '
                         f'| {_verdict(name, figures[name], aim)} |')
    lines.append('')
    for case, (_figures, more) in results.items():
        lines.append(f'* {case}: ' + ', '.join(
            f'{name} {value}' for name, value in more.items()))
    return '\n'.join(lines)


def _aim(name, unit, aim):
    if aim is None:
        return 'none'
    return f'{"≥" if name in AT_LEAST else "≤"} {aim} {unit}'.rstrip()


def _verdict(name, value, aim):
    if aim is None:
        return ''
    met = value >= _PACE * aim if name in AT_LEAST else value <= aim
    return 'met' if met else '**missed**'


def figures(results):
    """What goes to the JSON file."""
    return {case: one for case, (one, _more) in results.items()}

# SPDX-License-Identifier: Apache-2.0
"""Results for a pull request: the verdict first, tables folded."""

from collections.abc import Iterable
from collections.abc import Sequence
import html

from bench.report import words
from bench.results import comparison
from bench.results import model
from bench.results import verdict

CAVEAT = ('Ratios between runs on the same machine are what counts; shared '
          'cores and virtual links say nothing of a NIC.')

# Characters that begin something, within a line (CommonMark, 2.4 and 6; tables
# and autolinks of GitHub Flavored Markdown; mentions, and numbers of issues).
_SPECIAL = frozenset('\\`*_{}[]<>~|$@#')
_LINKS = (('://', ':&#47;/'), ('www.', 'www&#46;'))


def escape(text: str) -> str:
    """As text, whatever is in it: names and marks come from files."""
    line = html.escape(' '.join(text.split()), False)
    made = ''.join(f'&#{ord(character)};' if character in _SPECIAL
                   else character for character in line)
    for begin, instead in _LINKS:
        made = made.replace(begin, instead)
    return made


def code(text: str) -> str:
    """As a span of code in a cell: names with underscores stay readable."""
    line = ' '.join(text.split()).replace('`', "'").replace('|', '\\|')
    return f'`{line or " "}`'


def of_comparison(found: comparison.Comparison) -> str:
    """Of two runs."""
    counts = {each: sum(change.verdict == each for change in found.changes)
              for each in (verdict.CHANGED, verdict.SAME, verdict.UNKNOWN)}
    changed = [change for change in found.changes
               if change.verdict == verdict.CHANGED]
    others = [change for change in found.changes
              if change.verdict != verdict.CHANGED]
    lines = [
        f'## Benchmarks: {words.overall(found.verdict)}', '',
        f'{_name(found.before)} → {_name(found.after)}: '
        + ', '.join(f'{count} {each}' for each, count in counts.items())
        + f' ({_how(found)}).', '']
    lines += [f'- **Note**: {escape(text)}' for text in found.warnings]
    lines += [''] if found.warnings else []
    if changed:
        lines += [*_changes(changed), '']
    if others:
        lines += _folded(f'{len(others)} other cases', _changes(others))
    lines += _marks([*found.before.cases, *found.after.cases])
    for title, cases in (('Only before', found.only_before),
                         ('Only after', found.only_after)):
        if cases:
            lines += _folded(f'{title}: {len(cases)} cases', _cases(cases))
    if found.differences:
        lines += _folded(
            f'{len(found.differences)} differences of the machines',
            [f'- {escape(str(one))}' for one in found.differences])
    return '\n'.join([*lines, CAVEAT, ''])


def of_run(run: model.Run) -> str:
    """Of one run."""
    lines = [f'## Benchmarks: suite {code(run.suite)}', '',
             f'{_name(run)}, {run.started:%Y-%m-%d %H:%M} UTC, '
             f'{len(run.cases)} cases.', '']
    if run.versus:
        lines += [*_table(
            ('case', 'peer', 'times better'),
            ((code(one.case), code(one.peer),
              f'{one.ratio:.2f} ({one.low:.2f} to {one.high:.2f})')
             for one in run.versus)), '']
    lines += _marks(run.cases)
    lines += _folded(f'{len(run.cases)} cases', _cases(run.cases))
    return '\n'.join([*lines, CAVEAT, ''])


def _name(run):
    return (code(run.commit[:12])
            + (f' (run {run.id})' if run.id is not None else ''))


def _how(found):
    turns = 'rounds in turn' if found.in_turn else 'rounds not in turn'
    return (f'{turns}; the smallest difference of interest is '
            f'{100 * found.interest.relative:g} %')


def _changes(changes: Iterable[verdict.Change]) -> list[str]:
    return _table(
        ('case', 'software', 'before', 'after', 'change', 'verdict'),
        ((code(one.after.name), code(one.after.software),
          escape(words.case(one.before)), escape(words.case(one.after)),
          escape(words.change(one)), escape(words.judged(one)))
         for one in changes))


def _cases(cases: Iterable[model.Case]) -> list[str]:
    return _table(
        ('case', 'software', 'median (interval)', 'rounds', 'marks'),
        ((code(one.name), code(one.software), escape(words.case(one)),
          str(len(one.samples)), escape('; '.join(one.marks)))
         for one in cases))


def _marks(cases: Sequence[model.Case]) -> list[str]:
    """Never folded: a figure with a mark is not what was asked for."""
    marked = dict.fromkeys(
        f'- {code(one.name)} ({code(one.software)}): {escape(mark)}'
        for one in cases for mark in one.marks)
    return ['**Marks**', '', *marked, ''] if marked else []


def _table(head, rows):
    return ['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head),
            *('| ' + ' | '.join(row) + ' |' for row in rows)]


def _folded(summary, lines):
    return [f'<details><summary>{summary}</summary>', '', *lines, '',
            '</details>', '']

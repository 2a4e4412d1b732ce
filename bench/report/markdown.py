# SPDX-License-Identifier: Apache-2.0
"""Markdown reports for pull requests: the verdict first, tables folded."""

from collections.abc import Iterable
from collections.abc import Sequence
import html

from bench.report import words
from bench.results import comparison
from bench.results import model
from bench.results import verdict

CAVEAT = ('Ratios between runs on the same machine are what counts; shared '
          'cores and virtual links say nothing of a NIC.')

# Characters with a meaning within a line (CommonMark, 2.4 and 6; tables and
# autolinks of GitHub Flavored Markdown; mentions and numbers of issues).
_SPECIAL = frozenset('\\`*_{}[]<>~|$@#')
_LINKS = (('://', ':&#47;/'), ('www.', 'www&#46;'))


def escape(text: str) -> str:
    """Escape any text, since names and marks come from files."""
    line = html.escape(' '.join(text.split()), False)
    made = ''.join(f'&#{ord(character)};' if character in _SPECIAL
                   else character for character in line)
    for begin, instead in _LINKS:
        made = made.replace(begin, instead)
    return made


def code(text: str) -> str:
    """Return a code span for a cell, so that underscores stay readable."""
    line = ' '.join(text.split()).replace('`', "'").replace('|', '\\|')
    return f'`{line or " "}`'


def of_comparison(compared: comparison.Comparison) -> str:
    """Return the report of a comparison."""
    counts = {each: sum(change.verdict == each for change in compared.changes)
              for each in (verdict.CHANGED, verdict.SAME, verdict.UNKNOWN)}
    changed = [change for change in compared.changes
               if change.verdict == verdict.CHANGED]
    others = [change for change in compared.changes
              if change.verdict != verdict.CHANGED]
    lines = [
        f'## Benchmarks: {words.overall(compared.verdict)}', '',
        f'{_name(compared.before)} → {_name(compared.after)}: '
        + ', '.join(f'{count} {each}' for each, count in counts.items())
        + f' ({_how(compared)}).', '']
    lines += [f'- **Note**: {escape(text)}' for text in compared.warnings]
    lines += [''] if compared.warnings else []
    if changed:
        lines += [*_changes(changed), '']
    if others:
        lines += _folded(f'{len(others)} other cases', _changes(others))
    lines += _marks([*compared.before.cases, *compared.after.cases])
    for title, cases in (('Only before', compared.only_before),
                         ('Only after', compared.only_after)):
        if cases:
            lines += _folded(f'{title}: {len(cases)} cases', _cases(cases))
    if compared.differences:
        lines += _folded(
            f'{len(compared.differences)} differences of the machines',
            [f'- {escape(str(difference))}'
             for difference in compared.differences])
    return '\n'.join([*lines, CAVEAT, ''])


def of_run(run: model.Run) -> str:
    """Return the report of a run."""
    lines = [f'## Benchmarks: suite {code(run.suite)}', '',
             f'{_name(run)}, {run.started:%Y-%m-%d %H:%M} UTC, '
             f'{len(run.cases)} cases.', '']
    if run.versus:
        lines += [*_table(
            ('case', 'peer', 'times better'),
            ((code(versus.case), code(versus.peer),
              f'{versus.ratio:.2f} ({versus.low:.2f} to {versus.high:.2f})')
             for versus in run.versus)), '']
    lines += _marks(run.cases)
    lines += _folded(f'{len(run.cases)} cases', _cases(run.cases))
    return '\n'.join([*lines, CAVEAT, ''])


def _name(run):
    return (code(run.commit[:12])
            + (f' (run {run.id})' if run.id is not None else ''))


def _how(compared):
    turns = 'rounds in turn' if compared.in_turn else 'rounds not in turn'
    return (f'{turns}; the smallest difference of interest is '
            f'{100 * compared.interest.relative:g} %')


def _changes(changes: Iterable[verdict.Change]) -> list[str]:
    return _table(
        ('case', 'software', 'before', 'after', 'change', 'verdict'),
        ((code(change.after.name), code(change.after.software),
          escape(words.case(change.before)), escape(words.case(change.after)),
          escape(words.change(change)), escape(words.judged(change)))
         for change in changes))


def _cases(cases: Iterable[model.Case]) -> list[str]:
    return _table(
        ('case', 'software', 'median (interval)', 'rounds', 'marks'),
        ((code(case.name), code(case.software), escape(words.case(case)),
          str(len(case.samples)), escape('; '.join(case.marks)))
         for case in cases))


def _marks(cases: Sequence[model.Case]) -> list[str]:
    """Return marks, which are never folded: they put figures in doubt."""
    marked = dict.fromkeys(
        f'- {code(case.name)} ({code(case.software)}): {escape(mark)}'
        for case in cases for mark in case.marks)
    return ['**Marks**', '', *marked, ''] if marked else []


def _table(head, rows):
    return ['| ' + ' | '.join(head) + ' |', '|' + '---|' * len(head),
            *('| ' + ' | '.join(row) + ' |' for row in rows)]


def _folded(summary, lines):
    return [f'<details><summary>{summary}</summary>', '', *lines, '',
            '</details>', '']

# SPDX-License-Identifier: Apache-2.0
"""Nothing subtracts times by hand that a clock may have been set between."""

import ast
import re

import hypothesis
from hypothesis import strategies
import sqlalchemy as sa

from octavia_xdp_provider.controller.store import models
from octavia_xdp_provider.process import ages
from octavia_xdp_provider.tests.support import untimed
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents

PACKAGE = documents.ROOT / 'octavia_xdp_provider'
DATAPATH = documents.ROOT / 'datapath'
_CLOCKS = {'base.now', 'time.time'}
# The ages of files, in one process and by the kernel's own clock.
_FOLDERS = ('tests/',)
_LEFT_ALONE = {'process/ages.py', 'process/atomic_file.py', 'ctl/links.py'}

# Differences in C between a clock and a stored time. Nanoseconds and
# milliseconds of 64 bits never wrap, and their names have that suffix.
_AGES_IN_C = re.compile(
    r'\b(?:now|units_now\(\))\s*-\s*[\w>.(-]*(?:time|seen|stamp|since)\b'
    r'(?!_n?s\b)|'
    r'\b(?:now|units_now\(\))\s*-\s*\(?\*?\w+\s*(?:>>|&)')


def columns():
    """Columns of the database that are times: the only ones with fractions.
    """
    return {column.name for table in models.Base.metadata.tables.values()
            for column in table.columns if isinstance(column.type, sa.Double)}


def subtractions(text, times):
    """Lines with one of a time or of a clock's value."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and (
                _is_time(node.left, times) or _is_time(node.right, times)):
            yield node.lineno


def _is_time(node, times):
    # "a + b - now": the operand of the subtraction is the sum.
    return any(
        inner.attr in times if isinstance(inner, ast.Attribute)
        else isinstance(inner, ast.Call) and ast.unparse(inner.func) in _CLOCKS
        for inner in ast.walk(node))


class TestAges(base.TestCase):

    def test_future_time_has_no_age(self):
        self.assertEqual(0, ages.age(100, 40))
        self.assertEqual(60, ages.age(40, 100))

    def test_future_time_counts_as_expired(self):
        self.assertEqual(0, ages.left(7300, 60, 100))
        self.assertEqual(20, ages.left(60, 60, 100))
        self.assertEqual(0, ages.left(30, 60, 100))

    @untimed.settings
    @hypothesis.given(strategies.lists(strategies.floats(-9000, 9000),
                                       min_size=1, max_size=8))
    def test_waiting_is_bounded_by_the_span(self, jumps):
        """However the clock is set, as often as is looked."""
        span, now, then, waited = 60.0, 1e9, 1e9, 0.0
        for jump in (*jumps, 0, 0):
            left = ages.left(then, span, now)
            if not left:
                break
            self.assertLessEqual(left, span)
            now, waited = now + left + jump, waited + left
        else:
            # Set back each time by just less than what has passed.
            self.assertLessEqual(waited, span * (len(jumps) + 2))


class TestSubtractions(base.TestCase):

    def test_times_of_the_database_are_subtracted_in_one_file(self):
        times = columns()
        self.assertLessEqual({'last_seen', 'changed_at', 'draining_since',
                              'expires_at', 'due_at'}, times)
        places = []
        for path in PACKAGE.rglob('*.py'):
            name = str(path.relative_to(PACKAGE))
            if name.startswith(_FOLDERS) or name in _LEFT_ALONE:
                continue
            places += [f'{name}:{line}' for line
                       in subtractions(path.read_text(), times)]
        self.assertEqual([], sorted(places))

    def test_ages_in_the_datapath_are_those_of_one_header(self):
        places = []
        for path in DATAPATH.rglob('*.[ch]'):
            name = str(path.relative_to(DATAPATH))
            if name.startswith(('tests/', 'bench/', 'build/')) or (
                    name == 'include/age_since.h'):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if _AGES_IN_C.search(line):
                    places.append(f'{name}:{number}: {line.strip()}')
        self.assertEqual([], sorted(places))

    def test_forbidden_subtractions_are_found(self):
        times = columns()
        for text in ('now - row.last_seen > 5', 'row.changed_at + 60 - now',
                     'x = base.now(session) - first', 'time.time() - begin'):
            self.assertEqual([1], list(subtractions(text, times)), text)
        for text in ('now - begin', 'time.monotonic() - since'):
            self.assertEqual([], list(subtractions(text, times)), text)
        for text in ('age = now - flow->seen;', 'now - budget->time > 5',
                     'units_now() - (entry >> 20 & MASK)',
                     '(now - (entry & MASK)) >> 2'):
            self.assertTrue(_AGES_IN_C.search(text), text)
        for text in ('due = now - before >= INTERVAL', 'end - start'):
            self.assertFalse(_AGES_IN_C.search(text), text)

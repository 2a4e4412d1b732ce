# SPDX-License-Identifier: Apache-2.0
"""Each resource that tenants share is on the page about them, with a test."""

import ast
import re

from octavia_xdp_provider.contracts import enumerations
from octavia_xdp_provider.contracts import queue_names
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit import documents
from octavia_xdp_provider.tests.unit import exported

PACKAGE = documents.ROOT / 'octavia_xdp_provider'
BPF = documents.ROOT / 'datapath/bpf'
PAGE = documents.SOURCE / 'admin/isolation.rst'
FAULTS = documents.SOURCE / 'contributor/faults.rst'

# A map's name stands before its section or in a macro that defines it.
_MAPS = re.compile(
    r'(\w+)\s+SEC\("\.maps"\)|'
    r'\b(?:MMAPPED_ARRAY|PIECES|SLICES|PER_CPU_ARRAY|HASH_TABLE)\((\w+)[,)]')
_SECTIONS = re.compile(r'(\w+)\s+SEC\("\.data\.\w+"\)')
# Classes of Python that hold items which arrive faster than they are taken.
_WAITING = frozenset({'Queue', 'SimpleQueue', 'LifoQueue', 'PriorityQueue',
                      'ThreadPoolExecutor', 'BoundedSemaphore', 'Semaphore',
                      'deque'})
# Their length is bounded by the caller's own data.
_LOCAL = frozenset({'manage/rates.py'})


def names_of_maps():
    """Return the names of all programs' maps and global sections."""
    result = set()
    for path in BPF.rglob('*.[ch]'):
        text = re.sub(r'#define.*?[^\\]\n', '', path.read_text(), flags=re.S)
        for groups in _MAPS.findall(text):
            result.update(name for name in groups if name)
        result.update(_SECTIONS.findall(text))
    return result


def modules_with_queues():
    result = set()
    for path in PACKAGE.rglob('*.py'):
        name = str(path.relative_to(PACKAGE))
        if name.startswith('tests/') or name in _LOCAL:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called(node) in _WAITING:
                result.add(name)
    return result


def _called(node):
    return getattr(node.func, 'attr', getattr(node.func, 'id', None))


def literals(text):
    return re.findall(r'``([^`]+)``', text)


class Rows:
    """Cells of a page's tables, each with its text."""

    def __init__(self, path):
        text = path.read_text()
        self.rows = [re.split(r'\n     - ', '\n     - ' + row)[1:]
                     for row in re.split(r'\n   \* - ', text)[1:]]
        # Text after the last cell is not indented.
        for row in self.rows:
            row[-1] = re.split(r'\n(?=\S)', row[-1])[0]

    @property
    def seen_by(self):
        """Return the cells "Seen by", by the first cell."""
        return {row[0]: row[-2] for row in self.rows
                if row[-2].strip() != 'Seen by'}

    @property
    def tests(self):
        return [row[-1] for row in self.rows if row[-1].strip() != 'Test']


def counters():
    """Names of what is counted: series, and outcomes of packets."""
    return exported.names() | {
        outcome.name.lower() for outcomes in (
            enumerations.Outcome, enumerations.HostOutcome)
        for outcome in outcomes}


def without_a_counter(cells, known):
    """Return those of {row: cell} that name neither a counter nor a reason
    for having none, or name a series that there is not."""
    result = []
    for row, cell in cells.items():
        names = set(literals(cell))
        is_unknown = any(name.startswith('octavia_xdp_')
                         for name in names - known)
        has_reason = re.match(r'none\b[^:]*: [\w`]', ' '.join(cell.split()))
        if is_unknown or not (names & known or has_reason):
            result.append(row)
    return result


def unknown_tests(cell):
    """Return names in a cell that do not exist: modules or programs of tests,
    and functions that the modules before them do not have."""
    result, seen = [], []
    for name in literals(cell):
        texts = list(_sources(name))
        if texts:
            seen += texts
        elif '/' in name:
            if not (documents.ROOT / name).exists():
                result.append(name)
        elif not any(re.search(rf'\b{re.escape(name)}\b', text)
                     for text in seen):
            result.append(name)
    return result


def _sources(name):
    tests = PACKAGE / 'tests'
    for path in (tests / (name.replace('.', '/') + '.py'),
                 documents.ROOT / f'datapath/tests/{name}.c',
                 documents.ROOT / f'hc-agent/tests/{name}.rs'):
        if path.is_file():
            yield path.read_text()
    package = tests / name.replace('.', '/')
    if '.' in name and package.is_dir():
        yield from (path.read_text() for path in package.glob('*.py'))


class TestPage(base.TestCase):

    def setUp(self):
        super().setUp()
        self.literals = set(literals(PAGE.read_text()))

    def test_each_map_has_a_row(self):
        maps = names_of_maps()
        self.assertLessEqual({'flows', 'fragments', 'nat_owners', 'traced',
                              'uplinks', 'nat_index', 'config', 'settings',
                              'tables', 'service_counters'}, maps)
        self.assertEqual(set(), maps - self.literals)

    def test_each_queue_of_a_process_has_a_row(self):
        modules = modules_with_queues()
        self.assertIn('driver/controller_client.py', modules)
        self.assertEqual(set(), modules - self.literals)

    def test_queues_on_the_broker_have_a_row(self):
        self.assertLessEqual({queue_names.NODE_TOPIC, queue_names.HOST_TOPIC},
                             self.literals)

    def test_each_row_names_tests_that_there_are(self):
        for path in (PAGE, FAULTS):
            cells = Rows(path).tests
            self.assertGreater(len(cells), 20, path)
            self.assertEqual([], [name for cell in cells
                                  for name in unknown_tests(cell)], path)

    def test_each_row_names_its_counter_or_says_why_there_is_none(self):
        cells = Rows(PAGE).seen_by
        self.assertGreater(len(cells), 40)
        self.assertEqual([], without_a_counter(cells, counters()))

    def test_rows_without_a_test_share_nothing_that_can_be_tested(self):
        without = [row[0] for row in Rows(PAGE).rows
                   if not literals(row[-1]) and row[-1].strip() != 'Test']
        self.assertEqual(3, len(without), without)


class TestReaders(base.TestCase):
    """That the readers above see what is not there."""

    def test_unknown_module_and_function_are_found(self):
        gone = 'test_that_is_' + 'nowhere'
        self.assertEqual(
            ['unit.test_there_is_none', gone],
            unknown_tests('``unit.test_there_is_none``, '
                          '``unit.test_isolation``\n'
                          f'(``test_each_map_has_a_row``, ``{gone}``)'))

    def test_row_without_a_counter_or_a_reason_is_found(self):
        cells = {
            'counted': '``drop_rate`` of a node', 'no word': r'\-',
            'no reason': 'none', 'with reason': 'none of ours: broker\'s',
            'unknown': '``drop_rate``, ``octavia_xdp_' + 'nothing_total``',
            'none known': '``drop_' + 'nothing``'}
        self.assertEqual(['no word', 'no reason', 'unknown', 'none known'],
                         without_a_counter(cells, {'drop_rate'}))

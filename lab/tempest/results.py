# SPDX-License-Identifier: Apache-2.0
"""Results of a run, from its subunit stream."""

import collections
import dataclasses
import io
import re

import subunit
import testtools

from lab.tempest import skips


@dataclasses.dataclass
class Results:
    """Ids of tests: passed; failed → text; skipped → reason."""

    passed: list = dataclasses.field(default_factory=list)
    failed: dict = dataclasses.field(default_factory=dict)
    skipped: dict = dataclasses.field(default_factory=dict)

    @property
    def unexpected(self):
        """Tests that were skipped for an unlisted reason: {test: reason}."""
        return {test: reason for test, reason in self.skipped.items()
                if skips.meaning(reason) is None}

    @property
    def ok(self):
        return bool(self.passed) and not self.failed and not self.unexpected


def read(stream):
    """Return the results in a subunit stream (bytes)."""
    results = Results()

    def record(test):
        name = test['id']
        if test['status'] == 'success':
            results.passed.append(name)
        elif test['status'] == 'skip':
            results.skipped[name] = _text(test, 'reason')
        elif test['status'] != 'exists':
            results.failed[name] = _text(test, 'traceback') or test['status']
    consumer = testtools.StreamToDict(record)
    consumer.startTestRun()
    subunit.ByteStreamToStreamResult(io.BytesIO(stream)).run(consumer)
    consumer.stopTestRun()
    return results


def _text(test, name):
    return '\n'.join(content.as_text() for key, content
                     in test['details'].items() if key.startswith(name))


def by_class(results):
    """Return {class of tests: [passed, failed, skipped]}."""
    counts = collections.defaultdict(lambda: [0, 0, 0])
    for column, tests in enumerate((results.passed, results.failed,
                                    results.skipped)):
        for test in tests:
            counts[_class(test)][column] += 1
    return dict(counts)


def _class(test):
    """Return a test's class without "package.tests.".

    A class that is skipped completely has the id "setUpClass (CLASS)".
    """
    match = re.fullmatch(r'setUpClass \((.+)\)', test)
    name = match[1] if match else test.partition('[')[0].rpartition('.')[0]
    return name.partition('.tests.')[2] or name


def show(results):
    """Print failures, the counts of each class, and reasons for skips."""
    for test, text in sorted(results.failed.items()):
        print(f'--- {test}\n{text}')
    print('passed, failed, skipped:')
    for name, counts in sorted(by_class(results).items()):
        print('{:4} {:4} {:4} {}'.format(*counts, name))
    for _pattern, why in skips.LEFT_OUT:
        print(f'excluded: {why}')
    counts = collections.Counter(
        skips.meaning(reason) or f'NOT EXPECTED: {reason}'
        for reason in results.skipped.values())
    for text, number in sorted(counts.items()):
        print(f'{number:4} skipped: {text}')
    print(f'{len(results.passed)} passed, '
          f'{len(results.failed) + len(results.unexpected)} failed, '
          f'{len(results.skipped) - len(results.unexpected)} skipped',
          flush=True)

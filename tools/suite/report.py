# SPDX-License-Identifier: Apache-2.0
"""What a run of tests says at its end."""

import os
import resource

import budget


def _used():
    """Processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def second_tries(file):
    """Names of the tests that passed only when they ran once more."""
    return file.read_text().split() if file.exists() else []


def _beyond(run, budgets):
    """What is to be said of a part that takes more than its budget."""
    allowed = budgets.get(run.part.name, run.cpu_seconds)
    if run.cpu_seconds <= allowed:
        return ''
    return f', more than its budget of {allowed:.0f} s'


def _describe_failures(run):
    """Lines that name what failed in a part, and why."""
    failures = run.failures()
    for name, reason in failures.items():
        yield f'        {name}'
        yield from (f'            {line}' for line in reason)
    if not failures:
        yield from (f'        {line}' for line in run.last_lines())


def print_report(schedule, asked, tries, failures):
    """Print what each kind took; whether all of them passed.

    :param asked: the names of the kinds.
    :param tries: a file, of tests that ran once more (tools/test-part).
    :param failures: a file, for what failed and why (suite/ci.py).
    """
    described = []
    schedule.say('=== kinds of tests')
    budgets = budget.seconds()
    passed = 0
    for kind in asked:
        runs = [run for run in schedule.runs if run.part.kind == kind]
        missing = [part for part in schedule.not_run if part.kind == kind]
        ok = not missing and all(run.ok for run in runs)
        passed += ok
        print(f'{kind}: {"ok" if ok else "FAILED"} '
              f'({sum(run.seconds for run in runs):.0f} s)')
        for run in runs:
            print(f'    {run.part.name}: {run.result()}'
                  f'{_beyond(run, budgets)}')
            if not run.ok:
                described += _describe_failures(run)
        for part in missing:
            print(f'    {part.name}: not run')
    print(f'in all {schedule.seconds():.0f} s, {_used():.0f} s of processor '
          f'time, on {os.cpu_count()} processors')
    for name in second_tries(tries):
        print(f'second try: {name}')
    for line in described:
        print(line)
    failures.write_text('\n'.join(described))
    print(f'{passed} passed, {len(asked) - passed} failed', flush=True)
    return passed == len(asked)

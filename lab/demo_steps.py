# SPDX-License-Identifier: Apache-2.0
"""Steps of demonstrations, their report, and the CLI with visible output.

Missing requirements of the machine are reported before the first step. A step
that fails is reported with excerpts of the logs.
"""

import contextlib
import json
import os
import shlex
import sys
import textwrap
import time

from lab import cloud
from lab import deployment
from lab import log_excerpts
from lab import namespaces
from lab import paths
from lab import processes
from lab import progress
from lab import surroundings


class StepFailed(Exception):
    """A step failed; the text says what was observed."""


class Steps:
    """Steps in order; each returns a line of detail.

    :param report: path of the report.
    """

    def __init__(self, lab, report):
        self.lab = lab
        self.report = report
        self.steps = []
        self.logged = ''

    def check(self):
        """Check the machine's requirements of the steps.

        :raises paths.LabError: a requirement is missing.
        """
        surroundings.check(self.lab)

    def run(self):
        """Run all steps.

        :raises StepFailed: a step failed.
        """
        raise NotImplementedError

    def step(self, name, function):
        """Run one step and record it.

        :raises StepFailed: it failed.
        """
        progress.say(f'== {name}')
        started = time.monotonic()
        entry = {'name': name, 'ok': False, 'seconds': 0.0, 'detail': ''}
        self.steps.append(entry)
        logs = log_excerpts.sizes(self.lab)
        try:
            entry['detail'] = function() or ''
            entry['ok'] = True
        except (StepFailed, paths.LabError) as error:
            entry['detail'] = str(error)
            self.logged = log_excerpts.since(self.lab, logs)
            raise StepFailed(f'{name}: {error}') from error
        except BaseException as error:
            entry['detail'] = repr(error)
            raise
        finally:
            entry['seconds'] = round(time.monotonic() - started, 1)
            progress.say(f'   {"ok" if entry["ok"] else "FAILED"} '
                         f'({entry["seconds"]} s) {entry["detail"]}')
            self.write()

    def write(self):
        """Write the report."""
        self.report.parent.mkdir(exist_ok=True)
        self.report.write_text(
            json.dumps({'steps': self.steps}, indent=2) + '\n')

    def openstack(self, *arguments, user=cloud.TENANT):
        """Run the CLI; print the command and its output."""
        prompt = '$' if user == cloud.TENANT else f'{user} $'
        print(f'           {prompt} openstack {shlex.join(arguments)}',
              flush=True)
        output = processes.run(
            self.lab, paths.CONTROL, ['openstack', *arguments],
            env=cloud.environment(self.lab, user), timeout=180
        ).stdout.rstrip()
        for line in output.splitlines():
            print(f'             {line}', flush=True)
        return output


def expect(condition, observed):
    """:raises StepFailed: the condition is false; has the text `observed`."""
    if not condition:
        raise StepFailed(observed)


def run_all(report, steps, hint=''):
    """Run steps without a lab.

    :param report: path of the report.
    :param steps: name → function.
    :param hint: printed after a failure.
    :returns: 0 if all succeeded, else 1.
    """
    recorded = Steps(None, report)
    try:
        for name, function in steps.items():
            recorded.step(name, function)
    except StepFailed as error:
        print(f'FAILED: {error}{hint}', file=sys.stderr)
        return 1
    return 0


def run(steps, describe_kept_lab=None):
    """Run all steps, then stop the lab.

    :param describe_kept_lab: the lab is left up if all steps succeed; returns
        the text to print then. None: the lab is stopped.
    :returns: 0 if all steps succeeded and nothing is left; else 1, printed.
    """
    # Servers of the lab that give up root must be able to read its files.
    os.umask(0o022)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_lock(steps.lab))
        except paths.LabError as error:
            print(f'FAILED: {error}', file=sys.stderr)
            return 1
        status = _run(steps)
        if status == 0 and describe_kept_lab:
            print(describe_kept_lab())
            return 0
        return _end(steps, status)


def _run(steps):
    try:
        steps.check()
        steps.run()
    except StepFailed as error:
        print(f'\nFAILED: {error}', file=sys.stderr)
        if steps.logged:
            print('Excerpts of the logs from this step:\n'
                  f'{textwrap.indent(steps.logged, "  ")}', file=sys.stderr)
        print(f'Logs: {steps.lab.logs}', file=sys.stderr)
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
    except paths.LabError as error:
        print(f'\nFAILED: {error}', file=sys.stderr)
    else:
        return 0
    return 1


def _lock(lab):
    """Keep other demonstrations from stopping this one's lab."""
    return paths.held(
        lab.directory.with_suffix('.demonstration'),
        f'lab {lab.name} has a demonstration, process {{}}; wait for its end '
        'or choose another --name')


def _end(steps, status):
    with contextlib.suppress(paths.LabError):
        deployment.down(steps.lab)
    remaining = namespaces.hosts(steps.lab)
    if remaining:
        print(f'FAILED: namespaces are left: {remaining}', file=sys.stderr)
        return 1
    if status == 0:
        print('\nAll steps succeeded. Report: '
              f'{steps.report.relative_to(paths.CHECKOUT)}')
    return status

# SPDX-License-Identifier: Apache-2.0
"""What demonstrations share: steps that are noted, and the CLI as shown.

What the machine lacks is said before the first step, and what logs say beside
a step that did not hold.
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
    """A step did not hold; the text says what was seen instead."""


class Steps:
    """Steps, in order; each returns a line of detail.

    :param report: file into which they go.
    """

    def __init__(self, lab, report):
        self.lab = lab
        self.report = report
        self.steps = []
        self.logged = ''

    def check(self):
        """Look at what the steps need of the machine.

        :raises paths.LabError: something is missing.
        """
        surroundings.check(self.lab)

    def run(self):
        """All steps.

        :raises StepFailed: one did not hold.
        """
        raise NotImplementedError

    def step(self, name, function):
        """Run one step and note it.

        :raises StepFailed: it did not hold.
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
        """Run the CLI as shown, and show what it says."""
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


def expect(held, seen):
    """:raises StepFailed: it did not hold; ``seen`` says what was."""
    if not held:
        raise StepFailed(seen)


def run(steps, kept=None):
    """All steps, and the end of the lab.

    :param kept: returns what to say if all steps held and the lab is left up;
        None: it ends.
    :returns: 0 if all of them held and nothing is left; it says what not.
    """
    # Also what root alone could read otherwise is for servers of the lab that
    # give up root.
    os.umask(0o022)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_alone(steps.lab))
        except paths.LabError as error:
            print(f'FAILED: {error}', file=sys.stderr)
            return 1
        status = _run(steps)
        if status == 0 and kept:
            print(kept())
            return 0
        return _end(steps, status)


def _run(steps):
    try:
        steps.check()
        steps.run()
    except StepFailed as error:
        print(f'\nFAILED: {error}', file=sys.stderr)
        if steps.logged:
            print('Meanwhile was logged, among other things:\n'
                  f'{textwrap.indent(steps.logged, "  ")}', file=sys.stderr)
        print(f'Logs: {steps.lab.logs}', file=sys.stderr)
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
    except paths.LabError as error:
        print(f'\nFAILED: {error}', file=sys.stderr)
    else:
        return 0
    return 1


def _alone(lab):
    """Another demonstration would take this one's lab down, unasked."""
    return paths.held(
        lab.directory.with_suffix('.demonstration'),
        f'lab {lab.name} has a demonstration, process {{}}; wait for its end, '
        'or choose another --name')


def _end(steps, status):
    with contextlib.suppress(paths.LabError):
        deployment.down(steps.lab)
    left = namespaces.hosts(steps.lab)
    if left:
        print(f'FAILED: namespaces are left: {left}', file=sys.stderr)
        return 1
    if status == 0:
        print('\nEvery step held. Report: '
              f'{steps.report.relative_to(paths.CHECKOUT)}')
    return status

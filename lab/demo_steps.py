# SPDX-License-Identifier: Apache-2.0
"""What demonstrations share: steps that are noted, and the CLI as shown."""

import contextlib
import json
import shlex
import sys
import time

from lab import cloud
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab import progress


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

    def step(self, name, function):
        """Run one step and note it.

        :raises StepFailed: it did not hold.
        """
        progress.say(f'== {name}')
        started = time.monotonic()
        entry = {'name': name, 'ok': False, 'seconds': 0.0, 'detail': ''}
        self.steps.append(entry)
        try:
            entry['detail'] = function() or ''
            entry['ok'] = True
        except (StepFailed, paths.LabError) as error:
            entry['detail'] = str(error)
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


def run(steps):
    """All steps; returns 0 if all of them held, and says what did not."""
    try:
        steps.run()
    except StepFailed as error:
        print(f'\nFAILED: {error}\nLogs: {steps.lab.logs}', file=sys.stderr)
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
    except paths.LabError as error:
        print(f'\nFAILED: {error}', file=sys.stderr)
    else:
        return 0
    return 1


def end(steps, status):
    """End the lab. Returns the status, or 1 if something is left of it."""
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

# SPDX-License-Identifier: Apache-2.0
"""Applies the leases to switches and boot server.

One run at a time, in steps that can be repeated, so that the next run
completes a killed one.
"""

from collections.abc import Callable

from bench import errors
from testbed import boot
from testbed import folder as folders
from testbed import repository
from testbed import runs
from testbed import switches
from testbed import words

LOCK = 'sync'
ACTION = 'sync'


def run(folder: folders.Folder, who: str, say: Callable[[str], None]) -> None:
    """End expired leases, and apply the rest.

    :param say: called with a line for each step.
    :raises errors.BenchError: another sync is running, or a step failed.
    """
    who = words.owner(who)
    folder.make()
    with folder.lock(LOCK, wait_s=0):
        site = folder.leases()
        record = runs.Runs(site)
        number = record.begin(who)

        def both(text: str) -> None:
            record.say(number, text)
            say(text)

        try:
            _apply(folder, site, who, both)
        except errors.BenchError as error:
            record.end(number, error)
            site.note(who, ACTION, 'failed')
            raise
        record.end(number)


def running(folder: folders.Folder) -> bool:
    """Whether a sync is running."""
    return folder.locked(LOCK)


def _apply(folder, site, who, say):
    for lease in site.end_expired(who):
        say(f'lease {lease.number} of {lease.owner} has expired')
    known = folder.inventory()
    for lease in site.active():
        for name in lease.machines:
            if name not in known.machines:
                say(f'{name} of lease {lease.number} is not in the inventory '
                    'any more: it gets no port and no kernel')
    store = repository.Repository(folder)
    commit, files = store.follow(site, known, who)
    changed = switches.apply(files, known, folder.path / 'ansible',
                             folder.ansible)
    for name, count in sorted(changed.items()):
        say(f'switch {name}: {count} changed')
    say(boot.apply(files, known, folder.path / 'boot'))
    store.mark_applied(commit)
    site.note(who, ACTION, f'commit {commit[:12]}')
    say(f'applied: commit {commit[:12]}')

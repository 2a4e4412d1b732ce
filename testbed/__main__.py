# SPDX-License-Identifier: Apache-2.0
"""Reserves machines that people share, and gives them their part of the
switch and a kernel."""

import argparse
import getpass
import os
import pathlib
import sys

from bench import errors
from testbed import folder as folders
from testbed import leases
from testbed import repository
from testbed import sync
from testbed import words

PROGRAM = 'octavia-xdp-testbed'


def main(arguments: list[str]) -> int:
    """Return the exit status: 1 if the command failed, 2 for bad arguments."""
    return errors.exit_status(
        PROGRAM, lambda: _run(_parser().parse_args(arguments)))


def _parser():
    """Return the parser of common arguments and all actions."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__)
    parser.add_argument(
        '--folder', type=pathlib.Path, default=folders.DEFAULT,
        help='where reservations are kept (%(default)s)')
    parser.add_argument(
        '--inventory', type=pathlib.Path,
        help=f'the machines ({folders.INVENTORY} in the folder)')
    parser.add_argument(
        '--ansible-playbook', metavar='PROGRAM',
        help="the checkout's, or that of PATH")
    parser.add_argument(
        '--owner', default=getpass.getuser(),
        help='in whose name; as login names are (%(default)s)')
    actions = parser.add_subparsers(dest='action', required=True,
                                    metavar='ACTION')
    for add in (_add_list, _add_reserve, _add_renew, _add_release, _add_sync,
                _add_log, _add_serve):
        add(actions)
    return parser


def _run(arguments):
    """Execute the action."""
    # Leases are private; files for everyone are made readable explicitly.
    os.umask(0o077)
    words.owner(arguments.owner)
    folder = folders.Folder(arguments.folder, arguments.inventory,
                            arguments.ansible_playbook)
    return arguments.act(folder, arguments)


def _add_list(actions):
    action = actions.add_parser('list', help='all machines: who has which '
                                'until when')
    action.set_defaults(act=_list)


def _add_reserve(actions):
    action = actions.add_parser('reserve', help='take machines, all that are '
                                'named or none')
    action.add_argument('machines', nargs='+', metavar='MACHINE')
    action.add_argument('--purpose', required=True, help='one line of text')
    action.add_argument('--hours', type=int, default=8,
                        help='from now on (%(default)s)')
    action.add_argument('--kernel', help='one of the inventory, that the '
                        'machines boot')
    action.set_defaults(act=_reserve)


def _add_renew(actions):
    action = actions.add_parser('renew', help='have machines longer')
    action.add_argument('lease', type=int)
    action.add_argument('--hours', type=int, default=8,
                        help='from now on (%(default)s)')
    action.set_defaults(act=_renew)


def _add_release(actions):
    action = actions.add_parser('release', help='give machines back')
    action.add_argument('lease', type=int)
    action.add_argument('--force', action='store_true',
                        help="also somebody else's")
    action.set_defaults(act=_release)


def _add_sync(actions):
    action = actions.add_parser(
        'sync', help='end leases that have expired; bring switches and boot '
        'server to what the leases say')
    action.add_argument('--diff', action='store_true', help='only show what '
                        'the switches and the boot server would get')
    action.set_defaults(act=_sync)


def _add_log(actions):
    action = actions.add_parser('log', help='who did what')
    action.add_argument('--last', type=_positive, metavar='N',
                        help='only the last N entries')
    action.set_defaults(act=_log)


def _positive(text):
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f'"{text}" is no number of entries: it has to be 1 or more')
    return int(text)


def _add_serve(actions):
    action = actions.add_parser(
        'serve', help='pages for browsers, behind a reverse proxy of this '
        'host, which knows users and speaks TLS')
    action.add_argument('--listen', default='127.0.0.1:8070',
                        help='ADDRESS:PORT or unix:PATH (%(default)s)')
    action.add_argument(
        '--trusted-header', metavar='NAME', default='X-Remote-User',
        help='in which the reverse proxy of this host says who the user is; '
        'it has to remove what browsers send (%(default)s)')
    action.set_defaults(act=_serve)


def _list(folder, _arguments):
    known = folder.inventory()
    active = folder.leases().active()
    by_machine = {name: lease for lease in active for name in lease.machines}
    rows = [('MACHINE', 'ROLE', 'LEASE', 'OWNER', 'UNTIL', 'KERNEL',
             'PURPOSE')]
    for name in sorted({*known.machines, *by_machine}):
        role = known.machines[name].role if name in known.machines else \
            'not in the inventory'
        lease = by_machine.get(name)
        rows.append((name, role, *(
            ('-', 'free', '', '', '') if lease is None else
            (str(lease.number), lease.owner, words.time(lease.expires),
             lease.kernel or '-', lease.purpose))))
    _print(rows)
    return 0


def _reserve(folder, arguments):
    lease = folder.leases().reserve(
        arguments.owner, arguments.machines, arguments.hours,
        arguments.purpose, folder.inventory(), arguments.kernel)
    _print_lease(lease)
    _show_diff(folder, arguments)
    return 0


def _renew(folder, arguments):
    _print_lease(folder.leases().renew(
        arguments.lease, arguments.owner, arguments.hours,
        folder.inventory()))
    return 0


def _release(folder, arguments):
    folder.leases().release(arguments.lease, arguments.owner, arguments.force)
    print(f'lease {arguments.lease} has ended')
    _show_diff(folder, arguments)
    return 0


def _sync(folder, arguments):
    if arguments.diff:
        _show_diff(folder, arguments)
    else:
        sync.run(folder, arguments.owner, lambda text: print(text, flush=True))
    return 0


def _show_diff(folder, arguments):
    """Update the repository, and show what is not applied yet."""
    store = repository.Repository(folder)
    store.follow(folder.leases(), folder.inventory(), arguments.owner)
    print(store.diff(), end='')


def _log(folder, arguments):
    _print([(str(entry.number), words.time(entry.at), entry.who, entry.action,
             f'lease {entry.lease}' if entry.lease else '-', entry.text)
            for entry in folder.leases().log(arguments.last)])
    return 0


def _serve(folder, arguments):
    # Loaded on demand, since modules for pages load slowly.
    from testbed.web import serve
    serve.run(folder, arguments.listen, arguments.trusted_header)
    return 0


def _print_lease(lease: leases.Lease) -> None:
    print(f'lease {lease.number}: {", ".join(lease.machines)} for '
          f'{lease.owner} until {words.time(lease.expires)}')


def _print(rows):
    widths = [max(len(row[column]) for row in rows)
              for column in range(len(rows[0]))] if rows else []
    for row in rows:
        print('  '.join(text.ljust(width) for text, width
                        in zip(row, widths, strict=True)).rstrip())


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))

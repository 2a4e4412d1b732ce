# SPDX-License-Identifier: Apache-2.0
"""Requirements for tracing the kernel's drops.

Each function returns what it searched for, or raises Missing with a sentence
that says what is missing and what to do.
"""

import importlib.machinery
import importlib.util
import os
import sys

from octavia_xdp_provider.drops import libbpf

# The directory of Debian's python3-bpfcc; bcc is not on PyPI.
SYSTEM_PACKAGES = ('/usr/lib/python3/dist-packages',)
# In the order in which bcc tries them.
TRACEFS = ('/sys/kernel/debug/tracing', '/sys/kernel/tracing')
STATUS = '/proc/self/status'
CAPABILITIES = {'CAP_BPF': 39, 'CAP_PERFMON': 38}
CAP_SYS_ADMIN = 21  # includes both
DROPS = 'skb/kfree_skb'


class Missing(Exception):
    """The machine lacks a requirement; the text says what to do."""


def bcc(places=SYSTEM_PACKAGES):
    """Import bcc from this Python's or the system's packages."""
    if 'bcc' in sys.modules:
        return sys.modules['bcc']
    # Do not add the system's packages to sys.path: other modules in them
    # could shadow or conflict with this Python's.
    specification = (
        importlib.machinery.PathFinder.find_spec('bcc') or
        importlib.machinery.PathFinder.find_spec('bcc', list(places)))
    if specification is None:
        raise Missing(
            'bcc for Python is not installed: install the package '
            'python3-bpfcc (Debian, Ubuntu) or python3-bcc (Fedora, RHEL)')
    module = importlib.util.module_from_spec(specification)
    sys.modules['bcc'] = module
    try:
        specification.loader.exec_module(module)
        if not hasattr(module, 'BPF'):
            raise ImportError('it is another package of the same name')
    except Exception as error:
        del sys.modules['bcc']
        raise Missing(
            f'bcc in {specification.origin} cannot be used ({error}): '
            f'reinstall python3-bpfcc and libbpfcc') from error
    return module


def privileges(status=STATUS):
    """Check the capabilities of this process."""
    with open(status) as file:
        effective = next(int(line.split()[1], 16) for line in file
                         if line.startswith('CapEff:'))
    if effective >> CAP_SYS_ADMIN & 1:
        return
    lacking = [name for name, bit in CAPABILITIES.items()
               if not effective >> bit & 1]
    if lacking:
        raise Missing(
            f'this process lacks {" and ".join(lacking)}: run it as root')


def tracepoints(places=TRACEFS):
    """Return the directory in which tracefs lists tracepoints."""
    for place in places:
        events = os.path.join(place, 'events')
        if os.access(os.path.join(events, DROPS, 'format'), os.R_OK):
            return events
    if any(os.path.isdir(os.path.join(place, 'events')) for place in places):
        raise Missing(
            f'the tracepoint {DROPS.replace("/", ":")} cannot be read below '
            f'{places[-1]}/events: run as root, on a kernel with '
            f'CONFIG_TRACEPOINTS and CONFIG_NET')
    raise Missing(
        f'tracefs is not mounted: run "mount -t tracefs tracefs '
        f'{places[-1]}"')


def types():
    """Load the kernel's BTF."""
    try:
        return libbpf.Btf()
    except OSError as error:
        raise Missing(
            f'libbpf is not installed ({error}): install the package libbpf1 '
            f'(Debian, Ubuntu) or libbpf (Fedora, RHEL)') from error
    except libbpf.BtfError as error:
        raise Missing(
            f'the kernel\'s type information cannot be read ({error}): boot '
            f'a kernel built with CONFIG_DEBUG_INFO_BTF, as those of Debian, '
            f'Ubuntu and RHEL are') from error


def all_missing(*checks):
    """Run all checks, and return the sentences of those that fail."""
    sentences = []
    for check in checks or (bcc, privileges, tracepoints, types):
        try:
            check()
        except Missing as missing:
            sentences.append(str(missing))
    return sentences

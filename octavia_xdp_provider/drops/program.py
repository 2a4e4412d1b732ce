# SPDX-License-Identifier: Apache-2.0
"""Compiles and loads the counting program with bcc.

bcc wants the kernel's headers for what its own preamble includes. The program
itself needs none of them, because it takes formats from tracefs and offsets
from BTF. So it is compiled with a few headers of its own, below headers/.
Should another bcc want more than those, the kernel's are tried, if installed.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import sys
import tempfile

from octavia_xdp_provider.drops import btf
from octavia_xdp_provider.drops import environment

HERE = pathlib.Path(__file__).parent
TEXT = HERE / 'drops.bpf.c'
HEADERS = HERE / 'headers'
SOURCE_VARIABLE = 'BCC_KERNEL_SOURCE'  # bcc's
# What bcc reads of the kernel's headers, and a file that all of them have.
BUILD = '/lib/modules/{release}/build'
BUILD_FILE = 'include/generated/autoconf.h'
ARCHIVE = '/sys/kernel/kheaders.tar.xz'
# Of all that bcc reports as a failure to compile, what headers can mend.
MENDED_BY_HEADERS = re.compile(
    r':\d+:\d+: (fatal )?error: |Unable to find kernel headers')

OFFSETS = {
    'SKB_HEAD': ('sk_buff', 'head'),
    'SKB_DATA': ('sk_buff', 'data'),
    'SKB_NETWORK_HEADER': ('sk_buff', 'network_header'),
    'SKB_DEV': ('sk_buff', 'dev'),
    'SKB_IIF': ('sk_buff', 'skb_iif'),
    'DEV_IFINDEX': ('net_device', 'ifindex'),
    'DEV_NET': ('net_device', 'nd_net.net'),
    'NET_INUM': ('net', 'ns.inum'),
}
# Those that a kernel may lack. skb:kfree_skb must be there.
TRACEPOINTS = ('xdp_exception', 'xdp_redirect_err', 'xdp_redirect_map_err',
               'xdp_devmap_xmit', 'xdp_bulk_tx')


def definitions(types, events):
    """Compiler options: offsets, and which tracepoints there are.

    :param types: btf.Btf
    :param events: directory of tracepoints in tracefs
    """
    try:
        options = [f'-D{name}={types.offset(*member)}'
                   for name, member in OFFSETS.items()]
    except btf.BtfError as error:
        raise environment.Missing(
            f'{error}: boot a kernel with CONFIG_NET_NS, or of a version '
            f'that this release knows') from error
    return options + [
        f'-DHAVE_{name}' for name in TRACEPOINTS
        if os.path.exists(os.path.join(events, 'xdp', name, 'format'))]


def kernel_headers(release=None, build=BUILD, archive=ARCHIVE):
    """Whether bcc would find the running kernel's own headers."""
    directory = build.format(release=release or os.uname().release)
    return (os.path.exists(os.path.join(directory, BUILD_FILE)) or
            os.path.exists(archive))


@contextlib.contextmanager
def _source(directory):
    """bcc's environment; None: where bcc looks by itself."""
    before = os.environ.pop(SOURCE_VARIABLE, None)
    if directory is not None:
        os.environ[SOURCE_VARIABLE] = str(directory)
    try:
        yield
    finally:
        os.environ.pop(SOURCE_VARIABLE, None)
        if before is not None:
            os.environ[SOURCE_VARIABLE] = before


@contextlib.contextmanager
def _said():
    """What bcc, clang and libbpf print by themselves, as a file to read."""
    flush = ctypes.CDLL(None).fflush
    with tempfile.TemporaryFile('w+', errors='replace') as file:
        sys.stdout.flush()
        sys.stderr.flush()
        before = {number: os.dup(number) for number in (1, 2)}
        for number in before:
            os.dup2(file.fileno(), number)
        try:
            yield file
        finally:
            flush(None)
            for number, copy in before.items():
                os.dup2(copy, number)
                os.close(copy)


def _attempt(bcc, options, directory):
    """(loaded program, None) or (None, what went wrong)."""
    with _said() as said:
        try:
            with _source(directory):
                return bcc.BPF(text=TEXT.read_text(), cflags=options), None
        except Exception as error:  # bcc raises this class itself
            said.seek(0)
            lines = [line.strip() for line in said if line.strip()]
            telling = next((line for line in lines
                            if MENDED_BY_HEADERS.search(line)),
                           lines[-1] if lines else '')
            return None, f'{error}; {telling}' if telling else str(error)


def load(bcc, types, events):
    """The program, loaded and attached to its tracepoints.

    :raises Missing: it cannot be; says why and what to do.
    """
    options = definitions(types, events)
    loaded, problem = _attempt(bcc, options, HEADERS)
    if loaded is not None:
        return loaded
    if not MENDED_BY_HEADERS.search(problem):
        raise environment.Missing(
            f'the kernel does not take the tracing program ({problem}): run '
            f'as root, without lockdown in confidentiality mode '
            f'(/sys/kernel/security/lockdown) and outside of containers '
            f'that forbid bpf() or perf_event_open()')
    release = os.uname().release
    if not kernel_headers(release):
        raise environment.Missing(
            f'bcc {bcc.__version__} cannot compile the tracing program with '
            f'the headers that come with it ({problem}), and the running '
            f'kernel\'s are not installed: install linux-headers-{release} '
            f'(Debian, Ubuntu) or kernel-devel-{release} (Fedora, RHEL), or '
            f'load the module kheaders')
    loaded, second = _attempt(bcc, options, None)
    if loaded is None:
        raise environment.Missing(
            f'bcc {bcc.__version__} cannot compile the tracing program, '
            f'neither with the headers that come with it ({problem}) nor '
            f'with the kernel\'s ({second}): install a bcc that knows Linux '
            f'{release}')
    return loaded

# SPDX-License-Identifier: Apache-2.0
"""Compile and load the tracing program with bcc.

bcc compiles with the kernel's headers, which few nodes have. The program
needs none of them, because formats come from tracefs and offsets from BTF.
bcc's own preamble includes some, but uses little of them: it gets
kernel_types.h, and empty files in place of the other headers. If another
version of bcc needs more, the kernel's headers are tried, if installed.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import sys
import tempfile

from octavia_xdp_provider.drops import environment
from octavia_xdp_provider.drops import libbpf

HERE = pathlib.Path(__file__).parent
TEXT = HERE / 'drops.bpf.c'
TYPES = HERE / 'kernel_types.h'
# bcc includes this header first, so it can define everything.
FIRST_HEADER = 'linux/kconfig.h'
EMPTY_HEADERS = (
    'asm/page.h', 'linux/bpf_common.h', 'linux/log2.h', 'linux/types.h',
    'linux/version.h', 'uapi/linux/bpf.h', 'uapi/linux/if_ether.h',
    'uapi/linux/if_packet.h', 'uapi/linux/ptrace.h')
SOURCE_VARIABLE = 'BCC_KERNEL_SOURCE'  # read by bcc
# Where bcc finds the kernel's headers, and a file that all versions have.
BUILD = '/lib/modules/{release}/build'
BUILD_FILE = 'include/generated/autoconf.h'
ARCHIVE = '/sys/kernel/kheaders.tar.xz'
# Those of bcc's compile errors that other headers may fix.
HEADERS_MISSING = re.compile(
    r':\d+:\d+: (fatal )?error: |Unable to find kernel headers')

VIPS_MAX = 65536
ROWS_MAX = 16384
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
# Tracepoints of XDP; `event` in drops.bpf.c is an index of this tuple. A
# kernel may lack some of them, but not skb:kfree_skb.
EXCEPTION = 'xdp_exception'
EVENTS = (EXCEPTION, 'xdp_redirect_err', 'xdp_devmap_xmit', 'xdp_bulk_tx')


def definitions(types, events):
    """Return compiler options: offsets, sizes, and available tracepoints.

    :param types: libbpf.Btf
    :param events: directory of tracepoints in tracefs
    """
    try:
        offsets = [f'-D{name}={types.offset(*member)}'
                   for name, member in OFFSETS.items()]
    except libbpf.BtfError as error:
        raise environment.Missing(
            f'{error}: boot a kernel with CONFIG_NET_NS, of a version that '
            f'this release supports') from error
    return [
        *offsets, f'-DVIPS_MAX={VIPS_MAX}', f'-DROWS_MAX={ROWS_MAX}',
        *(f'-DEVENT_{name}={number}' for number, name in enumerate(EVENTS)
          if os.path.exists(os.path.join(events, 'xdp', name, 'format')))]


def kernel_headers(release=None, build=BUILD, archive=ARCHIVE):
    """Return whether bcc would find the running kernel's headers."""
    directory = build.format(release=release or os.uname().release)
    return (os.path.exists(os.path.join(directory, BUILD_FILE)) or
            os.path.exists(archive))


@contextlib.contextmanager
def _own_headers():
    """Create a directory with all kernel headers that bcc includes."""
    with tempfile.TemporaryDirectory(prefix='octavia-xdp-drops-') as folder:
        include = pathlib.Path(folder, 'include')
        for name in (FIRST_HEADER, *EMPTY_HEADERS):
            header = include / name
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(
                TYPES.read_text() if name == FIRST_HEADER else '')
        yield folder


@contextlib.contextmanager
def _source(directory):
    """Let bcc use this directory of headers; None: its own default."""
    before = os.environ.pop(SOURCE_VARIABLE, None)
    if directory is not None:
        os.environ[SOURCE_VARIABLE] = directory
    try:
        yield
    finally:
        os.environ.pop(SOURCE_VARIABLE, None)
        if before is not None:
            os.environ[SOURCE_VARIABLE] = before


@contextlib.contextmanager
def _captured_output():
    """Redirect the output of bcc, clang and libbpf to a file."""
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
    """Return (loaded program, None) or (None, text of the error)."""
    with _captured_output() as output:
        try:
            with _source(directory):
                return bcc.BPF(text=TEXT.read_text(), cflags=options), None
        except Exception as error:  # bcc raises this very class
            output.seek(0)
            lines = [line.strip() for line in output if line.strip()]
            cause = next((line for line in lines
                          if HEADERS_MISSING.search(line)),
                         lines[-1] if lines else '')
            return None, f'{error}; {cause}' if cause else str(error)


def load(bcc, types, events):
    """Load the program and attach it to its tracepoints.

    :param bcc: the module
    :param types: libbpf.Btf
    :param events: directory of tracepoints in tracefs
    :raises Missing: it cannot be loaded.
    """
    options = definitions(types, events)
    with _own_headers() as directory:
        loaded, problem = _attempt(bcc, options, directory)
    if loaded is not None:
        return loaded
    if not HEADERS_MISSING.search(problem):
        raise environment.Missing(
            f'the kernel refuses the tracing program ({problem}): run as '
            f'root, without lockdown in confidentiality mode '
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
            f'with the kernel\'s ({second}): install a bcc that supports '
            f'Linux {release}')
    return loaded

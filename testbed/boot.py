# SPDX-License-Identifier: Apache-2.0
"""The boot server: dnsmasq supplements the network's DHCP server and serves
iPXE by TFTP; scripts, kernels and roots are served by nginx by HTTP, or by
dnsmasq too.

They run while a lease has a kernel. Each writes a PID file; the configuration
that it was started with is stored beside it, to detect changes.
"""

from collections.abc import Mapping
import os
import pathlib
import shutil
import signal
import subprocess
import time

from bench import errors
from testbed import configuration
from testbed import inventory

SERVERS = {
    'dnsmasq': ('dnsmasq-base',
                ['dnsmasq', '--conf-file={folder}/dnsmasq.conf',
                 '--pid-file={folder}/run/dnsmasq.pid',
                 '--log-facility={folder}/run/dnsmasq.log']),
    'nginx': ('nginx-light',
              ['nginx', '-p', '{folder}/run', '-c', '{folder}/nginx.conf',
               '-e', '{folder}/run/nginx.log']),
}
# iPXE for other firmware, from Debian's package ipxe.
LOADERS = pathlib.Path('/usr/lib/ipxe'), ('undionly.kpxe', 'ipxe.efi')
STARTED = 'started'
WAIT_S = 20
_LOOK_AGAIN_S = 0.05


def apply(files: Mapping[str, str], known: inventory.Inventory,
          folder: pathlib.Path) -> str:
    """Serve what the files say, or nothing; return what was done, as text.

    :raises errors.BenchError: a server cannot run.
    """
    prefix = f'{configuration.BOOT}/'
    scripts = {name.removeprefix(prefix): text
               for name, text in files.items() if name.startswith(prefix)}
    if known.boot is None or not scripts:
        stopped = [name for name in SERVERS if stop(folder, name)]
        shutil.rmtree(folder / configuration.SERVED, ignore_errors=True)
        return f'boot server: {"stopped" if stopped else "not needed"}'
    served = folder / configuration.SERVED
    for path in served, folder / 'run':
        path.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o755)  # noqa: S103  # its content is served
    loaders, missing = _loaders()
    _put(loaders | _kernels(known, scripts), scripts, served)
    texts = configuration.boot_servers(
        sorted(scripts), known.boot, folder, _unprivileged())
    restarted = [name for name in SERVERS if _bring(
        folder, name, texts.get(f'{name}.conf'))]
    return (f'boot server: {len(scripts)} machines'
            + (f', {" and ".join(restarted)} started' if restarted else '')
            + (f'; without {" and ".join(missing)} firmware that is not iPXE '
               'boots nothing: install ipxe' if missing else ''))


def _unprivileged() -> str | None:
    """Return the user and group of servers that root starts."""
    return 'nobody nogroup' if os.geteuid() == 0 else None


def _loaders():
    """Return (files by name, names of loaders that are not installed)."""
    folder, names = LOADERS
    files = {name: folder / name for name in names
             if (folder / name).exists()}
    return files, [name for name in names if name not in files]


def _kernels(known, scripts):
    """Return files by name of the kernels that scripts boot."""
    text = '\n'.join(scripts.values())
    wanted = {}
    for kernel in known.kernels.values():
        url = configuration.kernel_url(known.boot, kernel.name)
        if f'{url}/vmlinuz' in text:
            for name, path in kernel.files().items():
                wanted[f'{configuration.KERNELS}/{kernel.name}/{name}'] = path
    return wanted


def _put(wanted, scripts, served):
    """Replace the served files; all are world-readable, as by network."""
    for path in list(served.rglob('*')):
        name = str(path.relative_to(served))
        if path.is_file() and name not in wanted and name not in scripts:
            path.unlink()
    for name, source in wanted.items():
        _copy(source, served / name)
    for name, script in scripts.items():
        _replace(served / name, script.encode())
    for path in [served, *served.rglob('*')]:
        os.chmod(path, 0o755 if path.is_dir() else 0o644)


def _copy(source, target):
    """Copy a file unless size and modification time are equal."""
    try:
        wanted = source.stat()
        if target.exists():
            seen = target.stat()
            if (seen.st_size, seen.st_mtime_ns) == (
                    wanted.st_size, wanted.st_mtime_ns):
                return
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_name(f'{target.name}.new')
        shutil.copy2(source, new)
        new.replace(target)
    except OSError as error:
        raise errors.BenchError(f'{source} cannot be served: {error}'
                                ) from error


def _replace(path, content):
    if path.exists() and path.read_bytes() == content:
        return
    new = path.with_name(f'{path.name}.new')
    new.write_bytes(content)
    new.replace(path)


def _bring(folder, name, text):
    """Run a server with a configuration, or stop it if that is None; return
    whether it was started.
    """
    if text is None:
        stop(folder, name)
        return False
    started = folder / 'run' / f'{name}.{STARTED}'
    if _process(folder, name) is not None and started.exists() \
            and started.read_text() == text:
        return False
    stop(folder, name)
    started.unlink(missing_ok=True)
    _replace(folder / f'{name}.conf', text.encode())
    package, words = SERVERS[name]
    program = shutil.which(words[0], path=f'{os.environ["PATH"]}:/usr/sbin')
    if program is None:
        raise errors.BenchError(f'{name} is missing: install {package}')
    done = subprocess.run(
        [program, *(word.format(folder=folder) for word in words[1:])],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors='replace', timeout=60)
    if done.returncode:
        raise errors.BenchError(f'{name} does not start: '
                                f'{done.stdout.strip()[-2000:]}')
    _wait(lambda: _process(folder, name) is not None, f'{name} to run')
    started.write_text(text)
    return True


def stop(folder: pathlib.Path, name: str) -> bool:
    """Stop a server; return whether it ran."""
    process = _process(folder, name)
    if process is None:
        return False
    os.kill(process, signal.SIGTERM)
    _wait(lambda: _process(folder, name) is None, f'the end of {name}')
    return True


def _process(folder, name):
    """Return the PID if it is a process of this server and folder."""
    try:
        number = int((folder / 'run' / f'{name}.pid').read_text())
        words = pathlib.Path(f'/proc/{number}/cmdline').read_bytes()
    except (OSError, ValueError):
        return None
    return number if name.encode() in words and \
        f'{folder}/{name}.conf'.encode() in words else None


def _wait(condition, what):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise errors.BenchError(f'waited {WAIT_S} s for {what}')
        time.sleep(_LOOK_AGAIN_S)

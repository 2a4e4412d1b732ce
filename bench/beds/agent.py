# SPDX-License-Identifier: Apache-2.0
"""Runs programs on a machine for a test bed, one request a line.

It is piped to python3 there and needs only the standard library of Python 3.9
or later, so that nothing has to be installed. Requests and answers are lines
of JSON on standard input and output; see Agent.

When its input ends, be it because the connection is lost, it kills all that it
has started with their children, runs the recorded undo commands and removes
its folder. What a killed agent left is removed by the next one.
"""

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

# Parent of all agents' folders.
FOLDERS = pathlib.Path('/run/octavia-xdp-bench')
# Environment variable of all processes that it starts.
MARK = 'OCTAVIA_XDP_BENCH_FOLDER'
UNDO = 'undo.jsonl'
PR_SET_CHILD_SUBREAPER = 36
# Limit of an undo command.
UNDO_TIMEOUT_S = 30


class Agent:
    """Answers carry the id of their request; events carry none.

    Requests, by "op":

    - run: arguments, stdin, timeout_s → status (None: timed out), stdout,
      stderr
    - start: arguments, log → process (a number); then events with this
      "process": "line", finally "closed" and "status"
    - write: process, text
    - stop: process, timeout_s → status
    - put: name, data (base64), mode, append → path, and new, the temporary
      path until "finish" with both
    - read: path, offset, size → data (base64)
    - undo: arguments of a command to run at the end, in reverse order

    A failed request is answered with a text as "error".
    """

    def __init__(self, folder, requests, answers, removed):
        self.folder, self.requests, self.answers = folder, requests, answers
        self.removed = removed
        self.lock = threading.Lock()
        self.processes = {}

    def serve(self):
        self.say({'folder': str(self.folder), 'removed': self.removed})
        for line in self.requests:
            request = json.loads(line)
            threading.Thread(target=self.answer, args=(request,),
                             daemon=True).start()

    def answer(self, request):
        number = request.pop('id')
        try:
            operation = getattr(self, f'do_{request.pop("op")}')
            self.say({'id': number, **(operation(**request) or {})})
        except (OSError, ValueError) as error:
            self.say({'id': number, 'error': str(error)})

    def say(self, answer):
        line = json.dumps(answer).encode() + b'\n'
        with self.lock, contextlib.suppress(OSError):
            self.answers.write(line)
            self.answers.flush()

    def do_run(self, arguments, stdin, timeout_s):
        with self.popen(arguments, stderr=subprocess.PIPE) as child:
            given = None if stdin is None else stdin.encode()
            try:
                stdout, stderr = child.communicate(given, timeout_s)
                status = child.returncode
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                stdout, stderr = child.communicate()
                status = None
        return {'status': status, 'stdout': stdout.decode(errors='replace'),
                'stderr': stderr.decode(errors='replace')}

    def do_start(self, arguments, log):
        with open(self.below(log), 'ab') as errors_to:
            child = self.popen(arguments, stderr=errors_to)
        with self.lock:
            number = len(self.processes)
            self.processes[number] = child
        threading.Thread(target=self.watch, args=(number, child),
                         daemon=True).start()
        return {'process': number}

    def do_write(self, process, text):
        stdin = self.processes[process].stdin
        stdin.write(text.encode())
        stdin.flush()

    def do_stop(self, process, timeout_s):
        child = self.processes[process]
        kill(child.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout_s)
        kill(child.pid, signal.SIGKILL)
        return {'status': child.wait()}

    def do_put(self, name, data, mode, append):
        path = self.below(name)
        new = path.with_name(f'.{path.name}.new')
        with open(new, 'ab' if append else 'wb') as file:
            file.write(base64.b64decode(data))
        new.chmod(mode)
        return {'path': str(path), 'new': str(new)}

    def do_finish(self, path, new):
        # A running program cannot be overwritten, but it can be replaced.
        os.replace(new, path)

    def do_read(self, path, offset, size):
        with open(path, 'rb') as file:
            file.seek(offset)
            return {'data': base64.b64encode(file.read(size)).decode()}

    def do_undo(self, arguments):
        with self.lock, open(self.folder / UNDO, 'a') as file:
            file.write(json.dumps(arguments) + '\n')

    def popen(self, arguments, stderr):
        return subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=stderr, start_new_session=True,
            env={**os.environ, MARK: str(self.folder), 'LANG': 'C.UTF-8',
                 'PYTHONUNBUFFERED': '1', 'PATH': path()})

    def watch(self, number, child):
        with child.stdout as output:
            for line in output:
                self.say({'process': number,
                          'line': line.decode(errors='replace')[:-1]
                          if line.endswith(b'\n')
                          else line.decode(errors='replace')})
        self.say({'process': number, 'closed': True})
        self.say({'process': number, 'status': child.wait()})

    def below(self, name):
        path = self.folder / name
        if self.folder not in path.resolve().parents:
            raise ValueError(f'{name} is not below {self.folder}')
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def path():
    own = os.environ.get('PATH', '').split(os.pathsep)
    others = ('/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin',
              '/sbin', '/bin')
    return os.pathsep.join([*filter(None, own),
                            *(path for path in others if path not in own)])


def kill(group, number):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def end(folder):
    """Kill processes, run undo commands, remove the folder."""
    while True:
        # Dead agents' processes by their environment, own ones as descendants.
        pids = set(marked(folder)) | set(descendants(os.getpid()))
        if not pids:
            break
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)
    undo(folder)
    shutil.rmtree(folder, ignore_errors=True)


def undo(folder):
    try:
        lines = (folder / UNDO).read_text().splitlines()
    except FileNotFoundError:
        return
    for line in reversed(lines):
        with contextlib.suppress(ValueError, OSError,
                                 subprocess.TimeoutExpired):
            subprocess.run(json.loads(line), stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False,
                           timeout=UNDO_TIMEOUT_S,
                           env={**os.environ, 'PATH': path()})


def marked(folder):
    wanted = f'{MARK}={folder}'.encode()
    for pid, directory in numbered():
        with contextlib.suppress(OSError):
            if wanted in (directory / 'environ').read_bytes().split(b'\0') \
                    and alive(directory):
                yield pid


def descendants(ancestor):
    parents = {}
    for pid, directory in numbered():
        with contextlib.suppress(OSError, ValueError):
            fields = (directory / 'stat').read_text().rpartition(')')[2]
            if fields.split()[0] not in 'ZX':
                parents[pid] = int(fields.split()[1])
    family = {ancestor}
    while True:
        more = {pid for pid, parent in parents.items()
                if parent in family} - family
        if not more:
            return family - {ancestor}
        family |= more


def numbered():
    for entry in os.listdir('/proc'):
        if entry.isdigit():
            yield int(entry), pathlib.Path('/proc') / entry


def alive(directory):
    fields = (directory / 'stat').read_text().rpartition(')')[2].split()
    return fields[0] not in 'ZX'


def hold(folder):
    """Make the folder and lock it for the lifetime of this process.

    Return the lock, and the names of dead agents that have been ended.
    """
    FOLDERS.mkdir(mode=0o755, parents=True, exist_ok=True)
    with open(FOLDERS / '.lock', 'a') as common_lock:
        fcntl.flock(common_lock, fcntl.LOCK_EX)
        dead = [other for other in FOLDERS.iterdir()
                if other.is_dir() and not locked(other)]
        for other in dead:
            end(other)
        if folder.exists():
            sys.exit(f'{folder} is that of a run that is alive')
        folder.mkdir(mode=0o755)
        lock = open(folder / '.lock', 'a')  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock, [other.name for other in dead]


def locked(folder):
    try:
        with open(folder / '.lock') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def main(name):
    # Adopt orphaned descendants, so that none escapes.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
        signal.signal(number, lambda *_: sys.exit(1))
    folder = FOLDERS / name
    answers = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)  # Keeps other output apart from answers.
    lock, removed = hold(folder)
    with lock:
        try:
            Agent(folder, sys.stdin.buffer, answers, removed).serve()
        finally:
            for number in signal.SIGTERM, signal.SIGHUP, signal.SIGINT:
                signal.signal(number, signal.SIG_IGN)
            end(folder)
            os._exit(0)  # Threads may still wait for killed processes.


if __name__ == '__main__':
    main(sys.argv[1])

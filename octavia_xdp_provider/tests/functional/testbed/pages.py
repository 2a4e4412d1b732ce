# SPDX-License-Identifier: Apache-2.0
"""The pages of reservations, served for a test."""

import re
import signal
import threading


def serve(test, bed, *options):
    """Where gunicorn listens, until the test ends; port 0 is the kernel's
    choice."""
    server = bed.start('serve', '--listen', '127.0.0.1:0', *options)
    test.addCleanup(server.stdout.close)
    test.addCleanup(server.wait)
    test.addCleanup(server.send_signal, signal.SIGTERM)
    for line in server.stdout:
        match = re.search(r'Listening at: (\S+)', line)
        if match:
            # It must not stand still for want of a reader.
            threading.Thread(target=server.stdout.read, daemon=True).start()
            return match[1]
    return test.fail('gunicorn does not listen')

# SPDX-License-Identifier: Apache-2.0
"""Octavia's renderer, in a process that ends with this one."""

import functools
import json
import subprocess
import sys


@functools.cache
def _process():
    return subprocess.Popen(
        [sys.executable, '-m',
         'octavia_xdp_provider.tests.unit.proxy.octavia_text'],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)


def render(document, bundle):
    """Return Octavia's text of the load balancer.

    :param bundle: returns the path of a bundle's file.
    """
    process = _process()
    print(json.dumps((document, bundle('NAME'))), file=process.stdin,
          flush=True)
    return json.loads(process.stdout.readline())

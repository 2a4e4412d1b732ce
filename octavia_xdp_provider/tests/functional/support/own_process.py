# SPDX-License-Identifier: Apache-2.0
"""Calls of what leaves traces in a process, such as Octavia's options."""

from concurrent import futures
import importlib
import multiprocessing

# Far more than anything here takes.
_LIMIT_S = 600


def _call(module, function, arguments):
    return getattr(importlib.import_module(module), function)(*arguments)


def call(module, function, *arguments):
    """Call a function in a process of its own, and return its result or raise
    its exception."""
    context = multiprocessing.get_context('fork')
    with futures.ProcessPoolExecutor(1, context) as pool:
        return pool.submit(_call, module, function, arguments).result(
            _LIMIT_S)

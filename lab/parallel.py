# SPDX-License-Identifier: Apache-2.0
"""Run functions in parallel."""

from concurrent import futures


def together(*functions):
    """Call functions without arguments, each in its own thread.

    Return when all have ended; raise the first error.
    """
    with futures.ThreadPoolExecutor(len(functions)) as pool:
        started = [pool.submit(function) for function in functions]
        for future in futures.as_completed(started):
            future.result()

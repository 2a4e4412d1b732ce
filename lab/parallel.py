# SPDX-License-Identifier: Apache-2.0
"""Do several things at once."""

from concurrent import futures


def together(*functions):
    """Call functions without arguments, each in a thread of its own.

    Returns when all have ended; raises the first error.
    """
    with futures.ThreadPoolExecutor(len(functions)) as pool:
        begun = [pool.submit(function) for function in functions]
        for future in futures.as_completed(begun):
            future.result()

# SPDX-License-Identifier: Apache-2.0
"""Errors that end a benchmark, with texts for the user."""


class BenchError(Exception):
    """Shown without a traceback: what is wrong, and what to do instead."""


class DeclarationError(BenchError):
    """An invalid declaration.

    :param path: path of the file.
    :param line: line of the mistake, from 1 on.
    """

    def __init__(self, path, line: int, text: str):
        super().__init__(f'{path}:{line}: {text}')
        self.path, self.line, self.text = path, line, text

# SPDX-License-Identifier: Apache-2.0
"""What ends a benchmark, with a text for who runs it."""


class BenchError(Exception):
    """Shown without a traceback: what is wrong, and what to do instead."""


class DeclarationError(BenchError):
    """A declaration that cannot be taken.

    :param path: of the file.
    :param line: of what is wrong, from 1 on.
    """

    def __init__(self, path, line: int, text: str):
        super().__init__(f'{path}:{line}: {text}')
        self.path, self.line, self.text = path, line, text

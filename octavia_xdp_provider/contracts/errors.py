# SPDX-License-Identifier: Apache-2.0
"""Errors about a wanted state, with what a user can do about them."""

# Why a value is refused (a clause that follows "because"), and what to do
# instead (an imperative clause).
Problem = tuple[str, str]
# The same, and a detail for the operator only.
Detailed = tuple[str, str, str]


class Refused(Exception):
    """An option, or its value, is not supported.

    :param option: the option's name as the API spells it, or the path of a
        field: ``pools.<id>.healthmonitor.url_path``.
    :param why: the reason, a clause that follows "because".
    :param instead: what the user can do instead, an imperative clause.
    :param detail: for the operator only. Users must not learn about nodes,
        other projects or networks that are not theirs.
    """

    def __init__(self, option: str, why: str, instead: str,
                 detail: str = '') -> None:
        self.option = option
        self.why = why
        self.instead = instead
        self.detail = detail
        super().__init__(
            f'The xdp provider refuses option {option!r}: {why}. '
            f'Instead: {instead}.')

    @property
    def for_operator(self) -> str:
        return f'{self} ({self.detail})' if self.detail else str(self)


class BadValue(ValueError):
    """The check of a field (contracts/fields.py) refuses its value."""

    def __init__(self, why: str, instead: str) -> None:
        self.why = why
        self.instead = instead
        super().__init__(f'{why}: {instead}')


class Conflict(Exception):
    """The request clashes with another load balancer."""

    @property
    def for_operator(self) -> str:
        return str(self)


class TooLate(Exception):
    """A request whose caller no longer waits for it."""


class UnknownObject(Exception):
    """A change names an object that is not in the wanted state."""

# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a wanted state, and what a user can do about it."""

# Why a value is refused (a clause that follows "because"), and what to do
# instead (an imperative clause).
Problem = tuple[str, str]
# The same, and what the operator alone is told beside.
Detailed = tuple[str, str, str]


class Refused(Exception):
    """An option is not supported, or has a value that cannot be done.

    :param option: the option's name as the API spells it, or the path of a
        field: ``pools.<id>.healthmonitor.url_path``.
    :param why: the reason, a clause that follows "because".
    :param instead: what the user can do instead, an imperative clause.
    :param detail: what the operator is told beside. Users learn nothing of
        nodes, of networks that are not theirs, or of other projects.
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
    """A check of one field (common/fields.py) refuses its value."""

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
    """A change names an object that the wanted state does not hold."""

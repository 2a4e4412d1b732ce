# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a wanted state, and what a user can do about it."""


class Refused(Exception):
    """An option is not supported, or has a value that cannot be done.

    :param option: the option's name as the API spells it.
    :param why: the reason, a clause that follows "because".
    :param instead: what the user can do instead, an imperative clause.
    """

    def __init__(self, option, why, instead):
        self.option = option
        self.why = why
        self.instead = instead
        super().__init__(
            f'The xdp provider refuses option {option!r}: {why}. '
            f'Instead: {instead}.')


class Conflict(Exception):
    """The request clashes with another load balancer."""


class UnknownObject(Exception):
    """A change names an object that the wanted state does not hold."""

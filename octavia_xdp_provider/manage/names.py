# SPDX-License-Identifier: Apache-2.0
"""Which load balancer an operator means: by id or by name, as in Octavia's
own commands."""

from octavia_xdp_provider.manage import command


def add_load_balancer(parser):
    parser.add_argument('load_balancer', metavar='LOAD_BALANCER',
                        help='its id or its name')


def load_balancer(store, word):
    """The row of a load balancer.

    :raises NotDone: there is none, or several have that name.
    """
    found = store.load_balancer(word)
    if found is not None:
        return found
    named = [row for row in store.load_balancers()
             if row.document.get('name') == word]
    if len(named) > 1:
        raise command.NotDone(
            f'{len(named)} load balancers have the name {word!r}, use an id: '
            + ', '.join(sorted(row.id for row in named)))
    if not named:
        raise command.NotDone(
            f'there is no load balancer with the id or name {word!r}; '
            '"octavia-xdp-manage lb list" shows those that are held')
    return named[0]

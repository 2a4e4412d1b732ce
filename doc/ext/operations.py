# SPDX-License-Identifier: Apache-2.0
"""What the API can be asked for, and who does it.

Each operation that Octavia hands to a provider is one method of the driver
(``octavia_lib.api.drivers.provider_base``), and a row here names it. Those
that are refused are asked why. Tests compare the rows with both interfaces.
"""

import dataclasses

from octavia_lib.api.drivers import exceptions

from octavia_xdp_provider.driver import provider

DONE = 'done'
REFUSED = 'refused'
# By its API and database, for each provider alike.
OCTAVIA = 'by Octavia'


@dataclasses.dataclass(frozen=True)
class Row:
    """Operations of one kind of object, and what is to be said."""

    kind: str
    operation: str
    support: str
    methods: tuple[str, ...] = ()
    note: str = ''

    def text(self):
        """The note, or why the driver refuses and what to do instead."""
        if self.support != REFUSED:
            return self.note
        return refusal(self.methods[0])


def refusal(method):
    """What the driver says when a method is called.

    :raises AssertionError: it does not refuse.
    """
    function = getattr(provider.XdpProviderDriver, method)
    # Without its constructor, which reads the configuration.
    driver = object.__new__(provider.XdpProviderDriver)
    try:
        function(driver, *[None] * (function.__code__.co_argcount - 1))
    except exceptions.UnsupportedOptionError as error:
        return error.user_fault_string
    raise AssertionError(f'{method} is not refused')


def _changes(kind, prefix, **notes):
    return [Row(kind, name, DONE, (f'{prefix}_{name}',), notes.get(name, ''))
            for name in ('create', 'update', 'delete')]


ROWS = [
    *_changes('Load balancer', 'loadbalancer',
              create='Also with all that is below it, in one request.',
              delete='Also with all that is below it (cascade).'),
    Row('Load balancer', 'VIP port', OCTAVIA, ('create_vip_port',),
        'The driver checks the VIP before there is a port.'),
    Row('Load balancer', 'failover', DONE, ('loadbalancer_failover',),
        'Other LB nodes take it over, before those that have it give it up.'),
    Row('Load balancer', 'failover to another flavor', REFUSED,
        ('loadbalancer_failover_with_flavor',)),
    Row('Load balancer', 'statistics', DONE, (),
        'Reported by LB nodes; bytes out are 0, as answers do not pass them.'),
    Row('Load balancer', 'status tree', DONE, (),
        'Provisioning and operating statuses are reported by the '
        'controllers.'),
    *_changes('Listener', 'listener'),
    Row('Listener', 'statistics', DONE, (), 'As of load balancers.'),
    *_changes('Pool', 'pool'),
    *_changes('Member', 'member'),
    Row('Member', 'batch update', DONE, ('member_batch_update',),
        'In one step; also with additive_only.'),
    *_changes('Health monitor', 'health_monitor'),
    *_changes('L7 policy', 'l7policy',
              create='Also with its rules in a new load balancer. Octavia '
                     'renumbers the policies of the listener.'),
    *_changes('L7 rule', 'l7rule'),
    Row('Quota', 'show, list, set, delete', OCTAVIA, (),
        'Octavia counts objects before it asks the driver.'),
    Row('Flavor profile', 'create, update', DONE, ('validate_flavor',),
        'Its data is checked by the keys of this provider.'),
    Row('Flavor', 'create, update, show, list, delete', OCTAVIA),
    Row('Availability zone profile', 'create, update', DONE,
        ('validate_availability_zone',),
        'Its data is checked by the keys of this provider.'),
    Row('Availability zone', 'create, update, show, list, delete', OCTAVIA),
    Row('Provider', 'flavor capabilities', DONE,
        ('get_supported_flavor_metadata',),
        'With the defaults that the operator has set.'),
    Row('Provider', 'availability zone capabilities', DONE,
        ('get_supported_availability_zone_metadata',)),
    Row('All objects', 'show, list', OCTAVIA, (),
        'From its database, in which the controllers keep statuses true.'),
]

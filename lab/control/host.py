# SPDX-License-Identifier: Apache-2.0
"""Start the control host with all its services."""

from concurrent import futures

from lab import cloud
from lab import namespaces
from lab import parallel
from lab import paths
from lab import progress
from lab.control import barbican
from lab.control import certificates
from lab.control import keystone
from lab.control import mariadb
from lab.control import neutron
from lab.control import octavia
from lab.control import rabbitmq
from lab.control import secret
from lab.control import template
from lab.ovn import central


def up(lab, provider=octavia.XDP, provider_options=None, others=(),
       ovn=False, with_barbican=False, beside=lambda: None):
    """Start the control host and its network.

    `provider_options` go into the provider's configuration file; `others` are
    providers in addition to the default. With `ovn` Neutron uses OVN's
    databases, and `with_barbican` Octavia has certificates from Barbican.
    `beside` is called in parallel once the network exists, and has
    ended when this returns.
    """
    with progress.step('making the control host and its network'):
        make_network(lab)
        secret.generate(lab)
        certificates.make(lab)
    with futures.ThreadPoolExecutor() as pool:
        other = pool.submit(beside)
        # Finished databases come with their passwords: restore them first.
        claimed = _configure(lab, provider, provider_options, others, ovn,
                             with_barbican)
        databases = pool.submit(_start_databases, lab, claimed)
        broker = pool.submit(step, 'RabbitMQ', rabbitmq.start, lab)
        if ovn:
            networks = pool.submit(step, 'OVN', central.start, lab)

        def start_controllers():
            databases.result()
            broker.result()
            _start_controllers(lab, provider)

        def start_apis():
            databases.result()
            if ovn:
                networks.result()
            _start_apis(lab)

        def start_barbican():
            if with_barbican:
                databases.result()
                step('Barbican', barbican.start, lab)
        if claimed:
            start_apis()
            # Save the template before controllers write to the databases.
            _fill(lab, claimed)
            if ovn:
                neutron.stop(lab)
                neutron.configure(lab, ovn=True)
                step('Neutron with OVN', neutron.start, lab)
            parallel.together(start_controllers, start_barbican)
        else:
            parallel.together(start_controllers, start_apis, start_barbican)
        if with_barbican:
            barbican.register(lab)
        other.result()
    octavia.start_housekeeping(lab)
    cloud.write_openrc(lab)


def _configure(lab, provider, provider_options, others, ovn, with_barbican):
    """Write all configurations; return what template.claim() returns."""
    with progress.step('looking for finished databases'):
        claimed = template.claim()
        if not claimed:
            template.restore(lab)
        keystone.configure(lab)
        # Fill databases without OVN, for labs that do not have it.
        neutron.configure(lab, ovn=ovn and not claimed)
        barbican.configure(lab)
        octavia.configure(lab, provider, others, (
            barbican.OCTAVIA_OPTIONS if with_barbican else None))
        octavia.configure_provider(lab, {
            **(provider_options or {}),
            **(neutron.listener_options(lab, provider_options) if ovn else {})
        })
    return claimed


def make_network(lab):
    """Create the control host with the management network."""
    namespaces.create(lab, paths.CONTROL)
    namespaces.bridge(lab, paths.CONTROL, namespaces.MANAGEMENT_BRIDGE)
    prefix = paths.MANAGEMENT_NETWORK.prefixlen
    namespaces.address(lab, paths.CONTROL, namespaces.MANAGEMENT_BRIDGE,
                       f'{paths.CONTROL_ADDRESS}/{prefix}')
    lab.state.put('addresses', paths.CONTROL,
                  {'management': paths.CONTROL_ADDRESS})


def _start_controllers(lab, provider):
    if provider == octavia.XDP:
        octavia.start_second_controller(lab)
    step('Octavia driver-agent', octavia.start_driver_agent, lab)


def _start_apis(lab):
    parallel.together(
        lambda: step('Keystone', keystone.start, lab),
        lambda: step('Neutron', neutron.start, lab),
        lambda: step('Octavia API', octavia.start_api, lab))


def _start_databases(lab, claimed):
    if not claimed:
        step('MariaDB', mariadb.start, lab)
        return
    with progress.step('making empty databases'):
        mariadb.initialise(lab)
        mariadb.start(lab)
        mariadb.create_databases(lab)
        keystone.make_keys(lab)
    parallel.together(*(
        lambda service=service: step(
            f"{service.__name__.rpartition('.')[2]}'s tables",
            service.migrate, lab)
        for service in (keystone, neutron, octavia, barbican)))


def _fill(lab, claimed):
    with (progress.step('making users, services and networks'),
          namespaces.inside(lab, paths.CONTROL)):
        cloud.set_up(lab)
    with progress.step('keeping the databases for the next time'):
        mariadb.stop(lab)
        template.save(lab, claimed)
        mariadb.start(lab)


def step(title, function, lab):
    """Run a function of the lab as a step of the timeline."""
    with progress.step(title):
        function(lab)

# SPDX-License-Identifier: Apache-2.0
"""Octavia: API, driver-agent and housekeeping, but no amphora worker.

The provider has two controllers on one database, run in the two supported
ways: the first by octavia-driver-agent, as its provider agent, the second as
its own process, like its systemd unit.
"""

import json

from lab import namespaces
from lab import paths
from lab import processes
from lab.control import ini
from lab.control import keystone
from lab.control import mariadb
from lab.control import neutron
from lab.control import rabbitmq
from lab.control import server
from octavia_xdp_provider.bundles import key_file
from octavia_xdp_provider.bundles import sealing
from octavia_xdp_provider.bundles import storage
from octavia_xdp_provider.config import options as product_options
from octavia_xdp_provider.controller.store import queries
from octavia_xdp_provider.controller.store import schema

API = 'octavia-api'
DRIVER_AGENT = 'octavia-driver-agent'
HOUSEKEEPING = 'octavia-housekeeping'
SECOND_CONTROLLER = 'octavia-xdp-controller'
PORT = 9876
URL = f'http://{paths.CONTROL_ADDRESS}:{PORT}'
XDP = 'xdp'
# Ports at which the controllers serve metrics to Prometheus.
METRICS_PORTS = {DRIVER_AGENT: 9104, SECOND_CONTROLLER: 9114}
# Sockets between providers and octavia-driver-agent.
SOCKETS = ('status', 'stats', 'get')
NOOP = 'noop_driver'
DESCRIPTIONS = {
    XDP: 'Layer-4 load balancing in XDP',
    NOOP: 'Does nothing',
}


def configure(lab, provider=XDP, others=(), certificates=None):
    """Write octavia.conf with a default provider, and additional ones.

    `certificates` are options that say where certificates are; by default
    Octavia makes them up.
    """
    directory = lab.host_directory(paths.CONTROL) / 'octavia'
    directory.mkdir(exist_ok=True)
    user = keystone.user_options(lab, 'octavia')
    sockets = {f'{kind}_socket_path': _socket(lab, kind)
               for kind in SOCKETS}
    _policy(lab).write_text(json.dumps({
        'load-balancer:global_observer':
            f'role:admin or role:{keystone.OBSERVER_ROLE}'}))
    ini.write(configuration(lab), {
        'DEFAULT': {'use_stderr': True, 'transport_url': 'fake://'},
        'oslo_policy': {'policy_file': _policy(lab)},
        'api_settings': {
            'auth_strategy': 'keystone',
            'enabled_provider_drivers': ','.join(
                f'{name}:{DESCRIPTIONS[name]}'
                for name in (provider, *others)),
            'default_provider_driver': provider,
        },
        'driver_agent': {
            **sockets,
            'enabled_provider_agents': XDP if provider == XDP else '',
            'provider_agent_shutdown_timeout': 10,
        },
        'database': {'connection': mariadb.url(lab, 'octavia')},
        'keystone_authtoken': keystone.token_options(lab, 'octavia'),
        'service_auth': user,
        # Without the endpoint Octavia asks Keystone at each creation.
        'neutron': {**user, 'endpoint_override': neutron.URL},
        'certificates': certificates or {
            'cert_manager': 'noop_cert_manager'},
        'controller_worker': {
            'network_driver': 'allowed_address_pairs_driver',
            'compute_driver': 'compute_noop_driver',
        },
        'house_keeping': {
            'cleanup_interval': 10,
            'load_balancer_expiry_age': 60,
        },
        'oslo_concurrency': {'lock_path': directory},
    })


def provider_configuration(lab):
    """Return the path of the controllers' configuration."""
    return lab.host_directory(paths.CONTROL) / 'octavia-xdp.conf'


def driver_configuration(lab):
    """Return the path of the driver's configuration, which has less."""
    return lab.host_directory(paths.CONTROL) / 'octavia-xdp-driver.conf'


def _second_configuration(lab):
    return lab.host_directory(paths.CONTROL) / 'octavia-xdp-second.conf'


def configure_provider(lab, options=None):
    """Write the configuration files of driver and controllers.

    `options` is a dictionary, section → option → value, that adds to the
    lab's options or overrides them.
    """
    both = {
        'DEFAULT': {'use_stderr': True, 'debug': True,
                    'host': paths.CONTROL},
        'oslo_messaging_rabbit': rabbitmq.tls_options(lab),
        'vip': {'allowed_networks': paths.VIP_NETWORKS},
        'members': {'allowed_networks': paths.MEMBER_NETWORKS},
    }
    ini.write(driver_configuration(lab), both, {
        'DEFAULT': {'transport_url': rabbitmq.driver_url(lab)},
        'secrets': {'controller_public_key': sealing.KeyPair.load(
            _key_file(lab, 'private-key')).public},
    }, options or {})
    key_file.create(_key_file(lab, 'keys'),
                    f'{storage.generate_key()}\n'.encode())
    # Both run on one host, but need different names.
    ini.write(_second_configuration(lab), {
        'DEFAULT': {'host': f'{paths.CONTROL}-2'},
        'controller': {'listen': _metrics(SECOND_CONTROLLER)}})
    ini.write(provider_configuration(lab), both, {
        'DEFAULT': {'transport_url': rabbitmq.controller_url(lab)},
        'nodes': {'transport_url': rabbitmq.nodes_url(lab)},
        'secrets': {'private_key_file': _key_file(lab, 'private-key'),
                    'keys_file': _key_file(lab, 'keys')},
        'database': {'connection': mariadb.url(lab, mariadb.CONTROLLERS)},
        'controller': {
            'listen': _metrics(DRIVER_AGENT),
            # Short, because tests wait for statistics.
            'statistics_interval': 2,
            **{f'{kind}_socket': _socket(lab, kind) for kind in SOCKETS},
            **{f'preloaded_{kind}_socket': _socket(lab, f'xdp-{kind}')
               for kind in SOCKETS}},
        'octavia': {
            **keystone.user_options(lab, keystone.OBSERVER),
            'valid_interfaces': 'internal',
        },
        # Used if the user has the role, as in a lab with hypervisors.
        'neutron': {'auth_section': 'octavia',
                    'region_name': keystone.REGION,
                    'valid_interfaces': 'internal'},
    }, options or {})


def _key_file(lab, name):
    directory = lab.host_directory(paths.CONTROL) / 'secrets'
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / name


def register_node(lab, node):
    """Register an LB node, which already has credentials."""
    with namespaces.inside(lab, paths.CONTROL):
        # The node's own configuration decides whether it does NAT.
        _store(lab).nodes.register(node, paths.nat_pools(paths.number(node)))


def register_hypervisor(lab, hypervisor):
    """Register a hypervisor, which already has credentials."""
    with namespaces.inside(lab, paths.CONTROL):
        _store(lab).hypervisors.register(hypervisor)


def _store(lab):
    return queries.Store(schema.context_manager(product_options.load(
        config_files=[str(provider_configuration(lab))])))


def manage(lab, *words):
    """Run octavia-xdp-manage, and return its output."""
    return processes.run(lab, paths.CONTROL, [
        _program('octavia-xdp-manage'), '--config-file',
        provider_configuration(lab), *words]).stdout


def migrate(lab):
    """Create the tables of Octavia and of the controllers."""
    processes.run(lab, paths.CONTROL, [
        _program('octavia-db-manage'), '--config-file', configuration(lab),
        'upgrade', 'head'])
    processes.run(lab, paths.CONTROL, [
        _program('octavia-xdp-manage'), 'database', 'upgrade'],
        env=_environment(lab))


def start_api(lab, driver=None):
    """Start the API server; `driver` overrides the driver's configuration."""
    server.start(lab, API, 'octavia', PORT, env=_environment(
        lab, driver or driver_configuration(lab)))


def start_driver_agent(lab):
    """Start the driver-agent, which runs a controller of the provider."""
    sockets = [_socket(lab, kind) for kind in SOCKETS]
    _start(lab, DRIVER_AGENT,
           ready=lambda: all(path.exists() for path in sockets))


def start_second_controller(lab):
    """Start the controller with its own process, without waiting for it."""
    processes.start(
        lab, paths.CONTROL, SECOND_CONTROLLER,
        [_program(SECOND_CONTROLLER),
         '--config-file', provider_configuration(lab),
         '--config-file', _second_configuration(lab)])


def start_housekeeping(lab):
    """Start the purge of deleted rows, without waiting for it."""
    _start(lab, HOUSEKEEPING)


def _start(lab, name, ready=None):
    processes.start(
        lab, paths.CONTROL, name,
        [_program(name), '--config-file', configuration(lab)],
        env=_environment(lab), ready=ready, timeout=120)


def _environment(lab, provider=None):
    return {'OCTAVIA_CONF': configuration(lab),
            'OCTAVIA_XDP_CONF': provider or provider_configuration(lab)}


def _metrics(process):
    return f'{paths.CONTROL_ADDRESS}:{METRICS_PORTS[process]}'


def _socket(lab, kind):
    return lab.run_directory / f'{kind}.sock'


def _program(name):
    return paths.VENV / 'bin' / name


def _policy(lab):
    """Return the path of the policy of the controller's user.

    It is JSON, which is YAML as well.
    """
    return lab.host_directory(paths.CONTROL) / 'octavia' / 'policy.yaml'


def configuration(lab):
    """Return the path of octavia.conf."""
    return lab.host_directory(paths.CONTROL) / 'octavia' / 'octavia.conf'

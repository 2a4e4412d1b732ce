# SPDX-License-Identifier: Apache-2.0
"""The configuration of all processes: its groups, and how it is loaded.

The driver runs inside octavia-api, whose global ``oslo.config`` object has
Octavia's own ``transport_url`` and ``database`` options. The provider must
not share them, so it always creates its own ``ConfigOpts`` from its own file.
"""

from collections.abc import Sequence
import copy
import os
import socket
from typing import Any

from oslo_config import cfg
from oslo_db import options as db_options
from oslo_log import log as logging

from octavia_xdp_provider.api import policy
from octavia_xdp_provider.config import bgp_options
from octavia_xdp_provider.config import control_options
from octavia_xdp_provider.config import host_options
from octavia_xdp_provider.config import nat_options
from octavia_xdp_provider.config import node_options
from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.config import proxy_options
from octavia_xdp_provider.config import secret_options
from octavia_xdp_provider.config import zero_touch_options
from octavia_xdp_provider.contracts import address_policy
from octavia_xdp_provider.contracts import flavor

CONFIG_ENVIRONMENT_VARIABLE = 'OCTAVIA_XDP_CONF'
DEFAULT_CONFIG_FILE = '/etc/octavia-xdp/octavia-xdp.conf'
DEFAULT_DATABASE = 'sqlite:////var/lib/octavia-xdp/octavia-xdp.sqlite'
# Pooled connections to the database. oslo.db pools 5 and closes others after
# each use, but a new connection with TLS costs more than a typical query.
DATABASE_CONNECTIONS = 30

default_opts = [
    cfg.StrOpt('host',
               default=socket.gethostname(),
               sample_default='<hostname>',
               help='Name of this machine. The controllers know an LB node by '
                    'this name, so it must be unique. On a hypervisor, use '
                    'the name by which Neutron knows the host '
                    '(binding:host_id).'),
    cfg.FloatOpt('hang_timeout',
                 default=120.0, min=1.0,
                 help='Seconds without progress after which a loop of the '
                      'controller, agent or result handler counts as hanging. '
                      'GET /healthcheck then reports it, and the process '
                      'stops notifying systemd, which restarts it after the '
                      'WatchdogSec of its unit.'),
]

GROUPS: dict[str, Sequence[cfg.Opt]] = {
    'DEFAULT': default_opts,
    'driver': control_options.driver_opts,
    'vip': control_options.vip_opts,
    'members': control_options.member_opts,
    'nodes': control_options.node_server_opts,
    'zero_touch': zero_touch_options.zero_touch_opts,
    'api': control_options.api_opts,
    'defaults': control_options.defaults_opts,
    'limits': control_options.limits_opts,
    'placement': control_options.placement_opts,
    'controller': control_options.controller_opts,
    'agent': node_options.agent_opts,
    'bgp': bgp_options.bgp_opts,
    'nat': nat_options.nat_opts,
    'datapath': node_options.datapath_opts,
    host_options.GROUP: host_options.host_opts,
    proxy_options.GROUP: proxy_options.proxy_opts,
    secret_options.GROUP: secret_options.secret_opts,
    'upgrade_levels': node_options.upgrade_opts,
}


def list_options() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Entry point of ``oslo.config.opts``, for the generated sample."""
    options: list[tuple[str, Sequence[cfg.Opt]]] = [
        (group, copy.deepcopy(opts)) for group, opts in GROUPS.items()]
    database = copy.deepcopy(db_options.database_opts)
    cfg.set_defaults(database, connection=DEFAULT_DATABASE,
                     max_pool_size=DATABASE_CONNECTIONS)
    return options + [('database', database)]


def allowed_addresses(conf: cfg.ConfigOpts,
                      own_addresses: frozenset[str] | None = None
                      ) -> address_policy.AddressPolicy:
    """Return the operator's networks as an AddressPolicy.

    :param own_addresses: texts, of this host if it is an LB node.
    :raises ConfigurationError: a network is malformed.
    """
    members = tuple(option_values.networks(conf, 'members',
                                           'allowed_networks'))
    return address_policy.AddressPolicy(
        tuple(option_values.networks(conf, 'vip', 'allowed_networks')),
        (*option_values.networks(conf, 'members', 'denied_networks'),
         *nat_options.pools(conf)),
        frozenset(own_addresses or ()),
        None if own_addresses is not None and not members else members,
        frozenset(conf.vip.subnet_ids), frozenset(conf.vip.network_ids),
        tuple(option_values.networks(conf, 'zero_touch', 'member_networks')),
        tuple(option_values.networks(conf, 'vip', 'denied_networks')),
        bool(conf.proxy.token_networks and conf.zero_touch.proxy_networks))


def api_policy(conf: cfg.ConfigOpts) -> policy.ApiPolicy:
    """Return what the operator allows to users of the API, as an ApiPolicy.

    :raises ConfigurationError: a value is invalid.
    """
    defaults = {key: value for key, value in conf.defaults.items()
                if value is not None}
    if conf.api.algorithms_served_by_hash:
        defaults['algorithms_served_by_hash'] = sorted(
            conf.api.algorithms_served_by_hash)
    if conf.zero_touch.mode != 'off':
        defaults['zero_touch'] = conf.zero_touch.mode
    problem = flavor.problem(defaults)
    if problem:
        raise option_values.ConfigurationError(
            f'[defaults] {problem[0]}: {problem[1]}')
    return policy.ApiPolicy(allowed_addresses(conf),
                            tuple(conf.members.monitor_http_methods),
                            defaults, conf.members.check_subnets,
                            not conf.vip.any_network,
                            public_key=conf.secrets.controller_public_key)


def default_config_files() -> list[str]:
    """Return the file of OCTAVIA_XDP_CONF, or the default one if it exists."""
    named = os.environ.get(CONFIG_ENVIRONMENT_VARIABLE)
    if named:
        return [named]
    if os.path.exists(DEFAULT_CONFIG_FILE):
        return [DEFAULT_CONFIG_FILE]
    return []


def new() -> cfg.ConfigOpts:
    """Return a separate ``ConfigOpts`` with all options, not yet read."""
    conf = cfg.ConfigOpts()
    for group, opts in GROUPS.items():
        conf.register_opts(opts, group=None if group == 'DEFAULT' else group)
    conf.register_opts(db_options.database_opts, group='database')
    conf.set_default('connection', DEFAULT_DATABASE, group='database')
    conf.set_default('max_pool_size', DATABASE_CONNECTIONS, group='database')
    logging.register_options(conf)
    return conf


def _read(conf: cfg.ConfigOpts, group: str, name: str) -> Any:
    try:
        return (conf if group == 'DEFAULT' else conf[group])[name]
    except cfg.Error as error:
        raise option_values.ConfigurationError(
            f'[{group}] {name}: {error}') from error


def check(conf: cfg.ConfigOpts) -> None:
    """Refuse invalid values.

    :raises ConfigurationError: names the option.
    """
    for group, opts in GROUPS.items():
        for opt in opts:  # oslo.config checks a value when it is read
            _read(conf, group, opt.dest)
    for name in ('allowed_networks', 'denied_networks'):
        option_values.networks(conf, 'vip', name)
        option_values.networks(conf, 'members', name)
    for name in ('member_networks', 'node_networks', 'proxy_networks',
                 'host_networks'):
        option_values.networks(conf, 'zero_touch', name)
    for name in ('subnet_ids', 'network_ids'):
        if option_values.uuids(conf, 'vip', name) and conf.vip.any_network:
            raise option_values.ConfigurationError(
                f'[vip] {name} names where VIPs may be, and any_network lets '
                'them be anywhere: set one of them')
    api_policy(conf)
    for group, name in (('agent', 'result_handler_metrics'),
                        ('agent', 'listen'), ('controller', 'listen')):
        option_values.listening_address(conf, group, name)
    node_options.check(conf)
    host_options.check(conf)
    bgp_options.check(conf)
    nat_options.check(conf)
    proxy_options.check(conf)
    secret_options.check(conf)


def differences(conf: cfg.ConfigOpts, other: cfg.ConfigOpts
                ) -> set[tuple[str, str]]:
    """Return (group, name) of the provider's options whose values differ."""
    return {(group, opt.name) for group, opts in GROUPS.items()
            for opt in opts
            if _read(conf, group, opt.dest) != _read(other, group, opt.dest)}


def load(argv: Sequence[str] = (), config_files: list[str] | None = None,
         prog: str = 'octavia-xdp') -> cfg.ConfigOpts:
    """Return a separate ``ConfigOpts``, read and checked.

    :param argv: command line arguments without the program's name.
    :param config_files: files to read. Default: default_config_files().
    :raises ConfigurationError: a file or a value is invalid.
    """
    conf = new()
    if config_files is None:
        config_files = default_config_files()
    try:
        conf(list(argv), project='octavia-xdp', prog=prog,
             default_config_files=config_files, default_config_dirs=[])
    except cfg.Error as error:
        raise option_values.ConfigurationError(str(error)) from error
    check(conf)
    return conf

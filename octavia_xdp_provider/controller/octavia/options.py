# SPDX-License-Identifier: Apache-2.0
"""Section ``[octavia]``: Octavia's API and the credentials for it.

The options are keystoneauth1's, as in other services' sections. They are not
in config/options.py because LB nodes, which use that module as well, do not
need keystoneauth1.
"""

import copy
from typing import Any

from keystoneauth1 import exceptions
from keystoneauth1 import loading
from oslo_config import cfg

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.controller import keystone_options

GROUP = 'octavia'

octavia_opts = [
    cfg.IntOpt('page_size',
               default=500, min=1,
               help='Number of load balancers per request when all are '
                    'listed. Octavia may return fewer ([api_settings] '
                    'pagination_max_limit of its configuration).'),
]


def _api_opts() -> list[cfg.Opt]:
    return [*keystone_options.session_opts(),
            *keystone_options.adapter_opts('load-balancer')]


def list_options() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for the sample file (entry point oslo.config.opts).
    """
    return [(GROUP, [*copy.deepcopy(octavia_opts),
                     *loading.get_auth_common_conf_options(),
                     *loading.get_auth_plugin_conf_options('v3password'),
                     *_api_opts()])]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the section's options, even if files have been read already.
    """
    conf.register_opts([*octavia_opts, *_api_opts()], group=GROUP)
    loading.register_auth_conf_options(conf, GROUP)


def load_adapter(conf: cfg.ConfigOpts) -> Any:
    """Return a keystoneauth1 adapter for Octavia's API, without connecting.

    :raises ConfigurationError: credentials are missing or incomplete.
    """
    register(conf)
    if not (conf[GROUP].auth_type or conf[GROUP].auth_section):
        raise option_values.ConfigurationError(
            f'[{GROUP}] auth_type is not set: the controller reads '
            'provisioning statuses from Octavia\'s API. Set it to '
            '"password", with auth_url, username, password, '
            'user_domain_name, project_name and project_domain_name of a '
            'user who may read the load balancers of all projects (role '
            'load-balancer_global_observer)')
    try:
        for opt in [*octavia_opts, *_api_opts()]:
            _ = conf[GROUP][opt.dest]  # reading a value validates it
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        session = keystone_options.load_session(conf, GROUP, auth)
        return loading.load_adapter_from_conf_options(
            conf, GROUP, session=session, auth=auth)
    except (exceptions.ClientException, cfg.Error, ValueError) as error:
        raise option_values.ConfigurationError(
            f'[{GROUP}]: {error}') from error

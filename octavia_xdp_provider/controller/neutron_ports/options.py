# SPDX-License-Identifier: Apache-2.0
"""Section ``[neutron]``: Neutron's API and the credentials for it.

The options are keystoneauth1's, as in ``[octavia]``; ``auth_section =
octavia`` uses the same credentials.
"""

from typing import Any

from keystoneauth1 import exceptions
from keystoneauth1 import loading
from oslo_config import cfg

from octavia_xdp_provider.config import option_values
from octavia_xdp_provider.controller import keystone_options

GROUP = 'neutron'


def _api_opts() -> list[cfg.Opt]:
    return [*keystone_options.session_opts(),
            *keystone_options.adapter_opts('network')]


def list_options() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options for the sample file (entry point oslo.config.opts).
    """
    return [(GROUP, [*loading.get_auth_common_conf_options(),
                     *loading.get_auth_plugin_conf_options('v3password'),
                     *_api_opts()])]


def load_session(conf: cfg.ConfigOpts) -> Any:
    """Register the section's options and return a keystoneauth1 session.

    :raises ConfigurationError: credentials are missing or incomplete.
    """
    conf.register_opts(_api_opts(), group=GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    try:
        for opt in _api_opts():
            _ = conf[GROUP][opt.dest]  # reading a value validates it
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        session = keystone_options.load_session(conf, GROUP, auth)
    except (exceptions.ClientException, cfg.Error, ValueError) as error:
        raise option_values.ConfigurationError(
            f'[{GROUP}]: {error}') from error
    if auth is None:
        raise option_values.ConfigurationError(
            f'[{conf[GROUP].auth_section or GROUP}] auth_type is not set, but '
            f'[{GROUP}] needs it to look up members in Neutron. Set it to '
            '"password", with auth_url, username, password, '
            'user_domain_name, project_name and project_domain_name of a '
            'user who may read ports and security groups of all projects; or '
            f'set [{GROUP}] auth_section to "octavia", if its user may')
    return session

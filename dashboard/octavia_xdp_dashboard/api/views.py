# SPDX-License-Identifier: Apache-2.0
"""REST view for the plugin's script; of no use outside Horizon."""

from django.conf import settings
from django.views import generic
from octavia_dashboard import sdk_connection
from octavia_dashboard.api.rest import lbaasv2
from openstack import exceptions
from openstack_dashboard.api.rest import urls
from openstack_dashboard.api.rest import utils

from octavia_xdp_dashboard import populated
from octavia_xdp_dashboard import providers

# Read once: Horizon does not start with an unknown setting.
_PROVIDERS = providers.names(getattr(settings, providers.SETTING, None))


@urls.register
class LoadBalancers(generic.View):
    """Load balancers with all below them."""

    url_regex = r'octavia_xdp/loadbalancers/$'

    @utils.ajax(data_required=True)
    def post(self, request):
        """Create a load balancer of any provider.

        One of this provider is created with everything below it, or not at
        all; others are created as octavia-dashboard does.
        """
        provider = request.DATA['loadbalancer'].get('provider')
        create = (_create if provider in _PROVIDERS
                  else lbaasv2.create_loadbalancer)
        try:
            return create(request)
        except exceptions.HttpException as error:
            # Octavia's message, without the client's prefix.
            raise utils.AjaxError(error.status_code,
                                  error.details or str(error)) from error


def _create(request):
    connection = sdk_connection.get_sdk_connection(request)
    return connection.load_balancer.create_load_balancer(
        **populated.load_balancer(request.DATA, request.user.project_id),
    ).to_dict()

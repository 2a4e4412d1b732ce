# SPDX-License-Identifier: Apache-2.0
"""REST views for the plugin's scripts; of no use outside Horizon."""

from django.conf import settings
from django.views import generic
from octavia_dashboard import sdk_connection
from openstack import exceptions
from openstack_dashboard.api.rest import urls
from openstack_dashboard.api.rest import utils

from octavia_xdp_dashboard import choices
from octavia_xdp_dashboard import populated


@urls.register
class Choices(generic.View):
    """What the wizard offers."""

    url_regex = r'octavia_xdp/choices/$'

    @utils.ajax()
    def get(self, request):
        """The choices, as ``choices.of`` has them."""
        return choices.of(getattr(settings, choices.SETTING, None))


@urls.register
class LoadBalancers(generic.View):
    """Load balancers with all below them."""

    url_regex = r'octavia_xdp/loadbalancers/$'

    @utils.ajax(data_required=True)
    def post(self, request):
        """Create one, with all that the wizard asked for, or nothing."""
        connection = sdk_connection.get_sdk_connection(request)
        try:
            made = connection.load_balancer.create_load_balancer(
                **populated.load_balancer(request.DATA,
                                          request.user.project_id))
        except exceptions.HttpException as error:
            # Octavia's own words, without the client's before them.
            raise utils.AjaxError(error.status_code,
                                  error.details or str(error)) from error
        return made.to_dict()

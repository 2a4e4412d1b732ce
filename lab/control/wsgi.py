# SPDX-License-Identifier: Apache-2.0
"""Makers of the WSGI applications that gunicorn serves.

All of them read sys.argv, which holds gunicorn's own arguments.
"""

import os
import sys


def keystone():
    """Keystone's application."""
    sys.argv = ['keystone-api']
    from keystone.wsgi import api
    return api.application


def neutron():
    """Neutron's application.

    Neutron loads its policy with the first request, and answers others that
    come meanwhile, in other threads, with empty lists. So it is loaded here.
    """
    sys.argv = ['neutron-api']
    from neutron import policy
    from neutron.wsgi import api
    policy.init()
    return api.application


def octavia():
    """Octavia's application."""
    sys.argv = ['octavia-api', '--config-file', os.environ['OCTAVIA_CONF']]
    from octavia.wsgi import api
    return api.application


def nova():
    """The application of Nova's API for servers."""
    sys.argv = ['nova-api']
    from nova.wsgi import osapi_compute
    return osapi_compute.application


def horizon():
    """Horizon's site, and the files that it had collected."""
    from django.conf import settings
    from openstack_dashboard import wsgi
    from whitenoise import WhiteNoise
    return WhiteNoise(wsgi.application, root=settings.STATIC_ROOT,
                      prefix=settings.STATIC_URL)

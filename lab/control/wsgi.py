# SPDX-License-Identifier: Apache-2.0
"""Factories of the WSGI applications that gunicorn serves.

Services read sys.argv, which has gunicorn's arguments: it is replaced first.
"""

import os
import sys


def keystone():
    """Return Keystone's application."""
    sys.argv = ['keystone-api']
    from keystone.wsgi import api
    return api.application


def neutron():
    """Return Neutron's application.

    Load its policy first: Neutron would load it with the first request, and
    meanwhile answer requests in other threads with empty lists.
    """
    sys.argv = ['neutron-api']
    from neutron import policy
    from neutron.wsgi import api
    policy.init()
    return api.application


def octavia():
    """Return Octavia's application."""
    sys.argv = ['octavia-api', '--config-file', os.environ['OCTAVIA_CONF']]
    from octavia.wsgi import api
    return api.application


def barbican():
    """Return Barbican's application, with the pipelines of its package."""
    sys.argv = ['barbican-api']
    from paste import deploy
    return deploy.loadapp(
        f'config:{sys.prefix}/etc/barbican/barbican-api-paste.ini')


def nova():
    """Return the application of Nova's API for servers."""
    sys.argv = ['nova-api']
    from nova.wsgi import osapi_compute
    return osapi_compute.application


def horizon():
    """Return Horizon's site with its collected static files."""
    from django.conf import settings
    from openstack_dashboard import wsgi
    from whitenoise import WhiteNoise
    return WhiteNoise(wsgi.application, root=settings.STATIC_ROOT,
                      prefix=settings.STATIC_URL)

# SPDX-License-Identifier: Apache-2.0
"""Horizon's local_settings.py in a lab.

tools/setup copies it to Horizon's directory. Values that differ between labs
come from the environment.
"""

import os
import sys

DEBUG = False
ALLOWED_HOSTS = ['*']
SECRET_KEY = os.environ.get('LAB_SECRET_KEY', 'of no use while files are made')
# Browsers do not return secure cookies to a server without TLS.
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE = False
OPENSTACK_KEYSTONE_URL = os.environ.get('LAB_KEYSTONE_URL', '')
OPENSTACK_ENDPOINT_TYPE = 'publicURL'
TIME_ZONE = 'UTC'
CACHES = {'default': {
    'BACKEND': 'django.core.cache.backends.locmem.LocMemCache'}}
SESSION_ENGINE = 'django.contrib.sessions.backends.cache'
# Files are collected and compressed once, for all labs.
COMPRESS_OFFLINE = True
STATIC_ROOT = os.path.join(sys.prefix, 'static')
LOGGING = {
    'version': 1,
    'disable_existing_loggers': False,
    'handlers': {'console': {'class': 'logging.StreamHandler'}},
    'root': {'handlers': ['console'], 'level': 'INFO'},
}
OCTAVIA_XDP = {'is_default_provider': True}

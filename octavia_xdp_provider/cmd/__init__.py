# SPDX-License-Identifier: Apache-2.0
"""The provider's own processes run on threads.

oslo.service picks its backend when its first component is imported, and its
default is eventlet, which oslo.messaging would bring in. The choice alone is
made here: loading a backend takes most of the start of a command that needs
none. The driver inside octavia-api does not come through here and leaves the
choice to Octavia.
"""

import os
import warnings

from oslo_service import backend

backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)

# What imports eventlet all the same shall not import dnspython for it, half of
# what a command takes to start.
os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')

# Open vSwitch's library imports eventlet where it finds it, which says so to
# everybody, and uses none of it.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')

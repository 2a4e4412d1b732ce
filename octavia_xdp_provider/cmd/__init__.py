# SPDX-License-Identifier: Apache-2.0
"""Makes the provider's own processes run on threads.

oslo.service picks its backend when its first component is imported; its
default is eventlet, which oslo.messaging would load. This module only sets the
choice, because loading a backend takes most of the start of a command that
needs none. The driver inside octavia-api does not import it and leaves the
choice to Octavia.
"""

import os
import warnings

from oslo_service import backend

backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)

# Keeps modules that import eventlet all the same from importing dnspython for
# it, which takes half of a command's start.
os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')

# Open vSwitch's library imports eventlet if installed, which prints this
# warning, but does not use it.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')

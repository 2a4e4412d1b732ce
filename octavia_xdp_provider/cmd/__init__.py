# SPDX-License-Identifier: Apache-2.0
"""The provider's own processes run on threads.

oslo.service picks its backend at first import, and its default is eventlet,
which oslo.messaging would bring in. The driver inside octavia-api does not
come through here and leaves the choice to Octavia.
"""

from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

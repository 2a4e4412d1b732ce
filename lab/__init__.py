# SPDX-License-Identifier: Apache-2.0
"""A whole deployment on one machine, in network namespaces of its own."""

import os

# oslo.messaging imports eventlet, and that dnspython, which cannot be imported
# that way where there is trio, which Selenium needs. It takes half of a start.
os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')

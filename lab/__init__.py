# SPDX-License-Identifier: Apache-2.0
"""A complete deployment on one machine, in network namespaces."""

import os

# oslo.messaging imports eventlet, which imports dnspython. That takes half of
# the start-up time, and fails if trio is installed, which Selenium needs.
os.environ.setdefault('EVENTLET_NO_GREENDNS', 'yes')

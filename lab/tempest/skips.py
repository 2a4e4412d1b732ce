# SPDX-License-Identifier: Apache-2.0
"""Accepted reasons for skipping a test.

A test that is skipped for another reason counts as failed.
"""

import re

# Regular expression of the test's reason, and what it means.
REASONS = (
    (r'Amphora tests only run with the amphora provider',
     'virtual machines of the amphora provider'),
    (r'Skipped until bug: \S*2045803 ',
     'a test that is disabled for all providers'),
)

# Regular expression of ids of tests that are not run, and why.
LEFT_OUT = (
    (r'\.(act_stdby|spare_pool)_scenario\.',
     'virtual machines of the amphora provider'),
    (r'\.barbican_scenario\.|\.scenario\.v2\.test_(ipv6_)?traffic_ops\.',
     'members in virtual machines that Nova starts and SSH prepares; '
     'octavia_xdp_provider/tests/e2e sends traffic to prepared members'),
    (r'_with_compute_flavor\b', 'the size of an amphora, which Nova keeps'),
)


def meaning(reason):
    """Return the meaning of a reason for skipping; None if not in REASONS."""
    return next((text for pattern, text in REASONS
                 if re.search(pattern, reason)), None)

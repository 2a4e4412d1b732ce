# SPDX-License-Identifier: Apache-2.0
"""Why a test may be skipped: what a packet forwarder cannot do.

A test that is skipped for another reason counts as failed.
"""

import re

# Regular expression of what the test said, and what that means.
REASONS = (
    (r"option 'protocol': the value '(HTTP|PROXY|PROXYV2|TERMINATED_HTTPS|"
     r"PROMETHEUS)' is not supported",
     'a protocol that has to be read or changed: packets are forwarded as '
     'they are'),
    (r'PROMETHEUS listener tests are disabled',
     'a listener that answers HTTP by itself'),
    (r'"terminated_tls_enabled" is False',
     'ending TLS'),
    (r'type (APP_COOKIE|HTTP_COOKIE) needs cookies',
     'session persistence by a cookie, which is within HTTP'),
    (r'Amphora tests only run with the amphora provider',
     'virtual machines of the amphora provider'),
    (r'Skipped until bug: \S*2045803 ',
     'a test that its authors have switched off for all providers'),
)

# Regular expression of ids of tests that are not run, and why.
LEFT_OUT = (
    (r'\.(act_stdby|spare_pool)_scenario\.',
     'virtual machines of the amphora provider'),
    (r'\.barbican_scenario\.', 'ending TLS'),
    (r'\.scenario\.v2\.test_(ipv6_)?traffic_ops\.',
     'members in virtual machines that Nova starts and SSH prepares; '
     'octavia_xdp_provider/tests/e2e sends traffic to members that know VIPs'),
    (r'_with_compute_flavor\b', 'the size of an amphora, which Nova keeps'),
)


def meaning(reason):
    """What a reason for skipping means; None: it is none of REASONS."""
    return next((text for pattern, text in REASONS
                 if re.search(pattern, reason)), None)

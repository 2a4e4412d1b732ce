# SPDX-License-Identifier: Apache-2.0
"""Hypothesis without its limits of time, which busy machines do not keep."""

import hypothesis

settings = hypothesis.settings(
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow])

# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the control plane: see README.rst."""

import lab  # noqa: F401, it sets the import path

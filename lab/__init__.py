# SPDX-License-Identifier: Apache-2.0
"""A whole deployment on one machine, in network namespaces of its own."""

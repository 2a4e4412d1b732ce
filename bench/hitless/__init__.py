# SPDX-License-Identifier: Apache-2.0
"""Connections that live while members and LB nodes change together."""

# SPDX-License-Identifier: Apache-2.0
"""Web pages for reservations, without JavaScript."""

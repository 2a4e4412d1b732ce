# SPDX-License-Identifier: Apache-2.0
"""Machines and switches that people share: who has what until when."""

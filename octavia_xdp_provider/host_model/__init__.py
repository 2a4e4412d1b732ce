# SPDX-License-Identifier: Apache-2.0
"""A hypervisor's programs a second time, in Python.

Written from doc/source/contributor/host-forwarding.rst. It imports nothing of
ours, sums whole messages where the programs correct checksums, and knows
nothing of how the programs keep flows: here they are dictionaries without a
limit.
"""

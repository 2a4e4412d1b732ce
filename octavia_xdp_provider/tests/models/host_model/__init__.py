# SPDX-License-Identifier: Apache-2.0
"""A second implementation of a hypervisor's programs, in Python.

Written from doc/source/contributor/host-forwarding.rst. It shares no code with
the rest of the project, sums whole messages where the programs update
checksums incrementally, and keeps flows in unlimited dictionaries.
"""

# SPDX-License-Identifier: Apache-2.0
"""The forwarding decision in plain Python, written from forwarding.rst.

A second implementation of ``datapath/bpf``: bytes in, bytes out. It shares no
code with the program and uses neither maps nor the library; the lists of
outcomes and encapsulations are those of ``contracts/enumerations.py``.
`Forwarder` in forward.py is the entry point, state.py holds its input.
"""

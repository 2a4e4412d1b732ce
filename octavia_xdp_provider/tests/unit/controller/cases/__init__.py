# SPDX-License-Identifier: Apache-2.0
"""Tests that each database has to pass.

Here on SQLite (test_on_sqlite.py); tests/functional/control/test_store.py runs
them on those that operators use.
"""

# SPDX-License-Identifier: Apache-2.0
"""Passwords of a lab, kept in its state."""

import hashlib
import secrets

SECTION = 'credentials'
NAMES = ('database', 'rabbitmq', 'admin', 'demo', 'neutron', 'octavia',
         'octavia-xdp', 'barbican')


def generate(lab):
    """Create a password for each of NAMES."""
    for name in NAMES:
        lab.state.put(SECTION, name, secrets.token_hex(16))


def make(lab, name):
    """Create or replace a user's password."""
    lab.state.put(SECTION, name, secrets.token_hex(16))


def password(lab, name):
    """Return the password of a user."""
    return lab.state.section(SECTION)[name]


def derived(lab, name, user):
    """Derive a password of another user from that of one of NAMES."""
    return hashlib.sha256(
        f'{password(lab, name)} {user}'.encode()).hexdigest()[:32]


def all_of(lab):
    """Return {user name: password}."""
    return lab.state.section(SECTION)


def restore(lab, passwords):
    """Set the passwords that a template's databases contain."""
    for name, value in passwords.items():
        lab.state.put(SECTION, name, value)

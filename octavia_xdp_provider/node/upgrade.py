# SPDX-License-Identifier: Apache-2.0
"""Hands the pinned state over from one library to another, under traffic."""

import errno
import os
import typing

from octavia_xdp_provider.node import library as libraries


class Interface(typing.NamedTuple):
    """An interface that runs the node's program."""
    index: int  # type: ignore[assignment]
    tag_before: str
    # False: it runs the wanted program already.
    changes: bool


class Upgrade(typing.NamedTuple):
    """The result of an upgrade or of a dry run."""
    layout_before: int
    layout_after: int
    # Of the program of all interfaces.
    tag_after: str
    services: int
    members: int
    interfaces: tuple[Interface, ...]
    # Number of interfaces that the library does not list.
    interfaces_more: int
    maps_new: int
    # Used by both programs, so their contents are neither copied nor lost.
    maps_handed: int
    # Size of the new maps, which coexist with the old ones until the end.
    map_bytes: int
    changes: bool


def upgrade(pin_directory: str, lock_file: str, library: str | None = None,
            from_library: str | None = None,
            dry_run: bool = False) -> Upgrade:
    """Replace the pinned program and layout by those of a library.

    :param library: the library that takes over. It may have another API
        version than this package, in a downgrade for example: everything is
        looked up in its own header.
    :param from_library: that of the pinned layout; None: found by its name.
    :param dry_run: do all but the changes.
    :raises DatapathError: nothing has changed. ELIBACC: the library of the
        pinned layout is not installed.
    """
    path = libraries.path_of(library)
    ffi, api = libraries.load(path)
    if not hasattr(api, 'oxp_upgrade'):
        raise libraries.DatapathError(
            errno.ELIBBAD, f'{path} is too old to take a node over')
    error = ffi.new('char[]', api.OXP_ERROR_LENGTH)
    names = [ffi.new('char[]', os.fsencode(name))
             for name in (pin_directory, lock_file)]
    options = ffi.new('struct oxp_options *', {
        'pin_directory': names[0], 'lock_file': names[1]})
    source = (ffi.NULL if from_library is None
              else ffi.new('char[]', os.fsencode(from_library)))
    out = ffi.new('struct oxp_upgrade *')
    status = api.oxp_upgrade(options, source, dry_run, out, error)
    if status < 0:
        raise libraries.DatapathError(
            -status, ffi.string(error).decode(errors='replace'))
    listed = min(out.interfaces, api.OXP_UPGRADE_INTERFACES)
    return Upgrade(
        out.layout_before, out.layout_after, bytes(out.tag_after).hex(),
        out.services, out.members,
        tuple(Interface(interface.ifindex, bytes(interface.tag_before).hex(),
                        bool(interface.changes))
              for interface in out.interface[0:listed]),
        out.interfaces - listed, out.maps_new, out.maps_handed, out.map_bytes,
        bool(out.changes))

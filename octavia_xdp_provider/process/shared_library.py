# SPDX-License-Identifier: Apache-2.0
"""Loads a shared library of the datapath by the text of its own header.

The binding is cffi in ABI mode: no compiler at install time, one shared
library to deploy. The library contains its header as a string, so that C and
Python share one contract that cannot drift.
"""

import errno
import functools
import ipaddress
import os
import typing

import cffi


class LibraryError(OSError):
    """The library returned an error; errno and text are its own."""

    def __init__(self, number: int, text: str):
        super().__init__(number, text or os.strerror(number))

    @property
    def text(self) -> str:
        return self.strerror or ''


def load(path: str, error: type[LibraryError] = LibraryError
         ) -> tuple[cffi.FFI, typing.Any]:
    """Return types and functions of a library of any interface version.

    :raises LibraryError: or ``error``: this is not a datapath library.
    """
    ffi = cffi.FFI()
    ffi.cdef('extern const char oxp_api_header[];')
    try:
        header = ffi.string(ffi.dlopen(path).oxp_api_header).decode()
    except KeyError:
        raise error(errno.ELIBBAD,
                    f'{path} is not the datapath\'s library') from None
    ffi = cffi.FFI()
    ffi.cdef(header)
    return ffi, ffi.dlopen(path)


def load_version(path: str, name: str, wanted: int,
                 error: type[LibraryError] = LibraryError
                 ) -> tuple[cffi.FFI, typing.Any]:
    """The same as load() for one interface version.

    :param name: the definition in the header with the interface version.
    :raises LibraryError: or ``error``: it has another kind or version.
    """
    ffi, api = load(path, error)
    version = getattr(api, name, None)
    if version is None:
        raise error(errno.ELIBBAD,
                    f'{path} is another of the datapath\'s libraries')
    if version != wanted:
        raise error(errno.EPROTO,
                    f'{path} has interface version {version}, '
                    f'this package needs {wanted}')
    return ffi, api


class Library:
    """A loaded library, its parsed header, and conversions that the libraries
    of the datapath have in common."""

    # Of the library's types, and of its definitions in capitals.
    prefix: str

    def __init__(self, path: str, version: int,
                 error: type[LibraryError]) -> None:
        self.ffi, self.api = load_version(
            path, f'{self.prefix.upper()}_API_VERSION', version, error)

    def address(self, text: str | None) -> typing.Any:
        """Return an address; all zeroes for None."""
        return self.ffi.new(f'struct {self.prefix}_address *',
                            (packed(text),) if text else None)

    def network(self, text: str) -> typing.Any:
        """Return a network; lengths are out of 32 or 128 bits."""
        network = ipaddress.ip_network(text)
        return self.ffi.new(f'struct {self.prefix}_network *', (
            self.address(str(network.network_address))[0],
            network.prefixlen))

    def networks(self, texts: typing.Iterable[str]) -> typing.Any:
        return self.ffi.new(f'struct {self.prefix}_network[]', [
            self.network(text)[0] for text in texts])


@functools.lru_cache(1 << 16)
def packed(text: str) -> bytes:
    """Return 16 bytes; IPv4 addresses become mapped ones."""
    parsed = ipaddress.ip_address(text)
    if parsed.version == 4:
        return bytes(10) + b'\xff\xff' + parsed.packed
    return parsed.packed


def mac(text: str | None) -> bytes:
    """Return six bytes; None becomes zeroes."""
    return bytes.fromhex(text.replace(':', '')) if text else bytes(6)


def text_of(address: typing.Any) -> str:
    """Return the text of an address."""
    parsed = ipaddress.IPv6Address(bytes(address.bytes))
    return str(parsed.ipv4_mapped or parsed)


def text_or_none(address: typing.Any) -> str | None:
    """Return None for an address of zeroes."""
    text = text_of(address)
    return None if text in ('::', '0.0.0.0') else text


def network_of(network: typing.Any) -> str:
    return f'{text_of(network.address)}/{network.length}'

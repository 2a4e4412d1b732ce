# SPDX-License-Identifier: Apache-2.0
"""Whether a proxy's HAProxy accepts a regular expression.

Octavia checks expressions with Python's ``re``, whose language differs:
``(?u)x`` and ``(a)\\1`` are valid there, and HAProxy refuses the whole
configuration because of them. So they are compiled here by the library that
HAProxy uses, with HAProxy's options (its function regex_comp).

The library is called by ctypes: the binding on PyPI (pcre2) bundles a newer
PCRE2, which accepts ``(?a)x``, and cannot set PCRE2_NO_AUTO_CAPTURE, without
which ``(a)\\1`` is valid.
"""

import ctypes
import functools

from octavia_xdp_provider.contracts import errors

_LIBRARY = 'libpcre2-8.so.0'

# HAProxy passes this where it does not need what groups have matched: in ACLs.
_NO_AUTO_CAPTURE = 0x2000
# HAProxy does not pass this. A pattern that begins with (*UTF) makes the
# result of matching a request that is not UTF-8 undefined, crashes included.
_NEVER_UTF = 0x1000
_JIT_COMPLETE = 1
# No JIT in this library: HAProxy does without it then.
_JIT_BADOPTION = -45
_MESSAGE_MAX = 256


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(_LIBRARY)
    library.pcre2_compile_8.restype = ctypes.c_void_p
    library.pcre2_compile_8.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint32,
        ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_size_t),
        ctypes.c_void_p]
    library.pcre2_jit_compile_8.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.pcre2_code_free_8.restype = None
    library.pcre2_code_free_8.argtypes = [ctypes.c_void_p]
    library.pcre2_get_error_message_8.argtypes = [
        ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    return library


def problem(pattern: str) -> errors.Problem | None:
    """Return why HAProxy refuses a regular expression, or None.

    :param pattern: without control characters and lone surrogates.
    """
    library = _library()
    text = pattern.encode()
    number, offset = ctypes.c_int(), ctypes.c_size_t()
    code = library.pcre2_compile_8(
        text, len(text), _NO_AUTO_CAPTURE | _NEVER_UTF, ctypes.byref(number),
        ctypes.byref(offset), None)
    if not code:
        message = ctypes.create_string_buffer(_MESSAGE_MAX)
        library.pcre2_get_error_message_8(number.value, message, _MESSAGE_MAX)
        return (f'the regular expression {pattern!r} is invalid at byte '
                f'{offset.value}: {message.value.decode()}',
                'write it in the syntax of PCRE2, and name groups that you '
                'refer to: (?<name>…) and \\k<name>')
    try:
        status = library.pcre2_jit_compile_8(code, _JIT_COMPLETE)
    finally:
        library.pcre2_code_free_8(code)
    if status not in (0, _JIT_BADOPTION):
        return (f'the regular expression {pattern!r} is too complex',
                'use a shorter one, or several rules')
    return None

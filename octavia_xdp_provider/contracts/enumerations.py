# SPDX-License-Identifier: Apache-2.0
"""Outcomes of packets, decisions on them, and encapsulations.

They are defined once, in ``contracts/enumerations.h``, which C includes. This
module parses it on import: control hosts do not have the library.
"""

from collections.abc import Iterator
import dataclasses
import enum
from importlib import resources
import re
import typing

OUTCOME = 'OXP_OUTCOME'
PROBE_OUTCOME = 'OXP_PROBE_OUTCOME'
HOST_OUTCOME = 'OXP_HOST_OUTCOME'
DECISION = 'OXP_DECISION'
ENCAPSULATION = 'OXP_ENCAPSULATION'

KINDS = ('uncounted', 'answered', 'remark', 'dropped')

_STRING = r'"((?:[^"\\\n])*)"'
_STRINGS = rf'(?P<text>{_STRING}(?:\s+{_STRING})*)'
_START = r'{}\(\s*(?P<name>[A-Z][A-Z0-9_]*),\s*(?P<number>0|[1-9][0-9]*),\s*'
_ENTRY = {
    OUTCOME: rf'(?P<word>{"|".join(KINDS)}),\s*',
    PROBE_OUTCOME: '(?P<word>)',
    HOST_OUTCOME: rf'(?P<word>{"|".join(KINDS)}),\s*',
    DECISION: r'"(?P<word>(?:[a-z][a-z0-9]* ?)*)",\s*',
    ENCAPSULATION: (r'(?P<shim>0|[1-9][0-9]*),\s*'
                    r'"(?P<word>[a-z][a-z0-9]*)",\s*'),
}
_ENTRY_PATTERNS = {
    macro: re.compile(_START.format(macro) + middle + _STRINGS + r'\s*\)')
    for macro, middle in _ENTRY.items()}
_MACROS = '|'.join(_ENTRY)
# Text between entries: comments, and defaults and ends of the macros.
_OTHERS = re.compile(
    r'\s+|/\*.*?\*/|'
    rf'#(?:ifndef (?:{_MACROS})|define (?:{_MACROS})\([a-z, ]+\)|endif|'
    rf'undef (?:{_MACROS}))$', re.DOTALL | re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of a list.

    ``word``: the kind of an outcome, the names of a decision's arguments, the
    option value of an encapsulation, or empty. ``text``: its meaning in
    reStructuredText. ``shim``: bytes that an encapsulation adds between the
    outer IP header and the packet.
    """

    name: str
    number: int
    word: str
    text: str
    shim: int = 0


def _matches(text: str) -> Iterator[tuple[int, str, re.Match[str]]]:
    """Yield line number, macro and match of each entry."""
    at = 0
    while at < len(text):
        if match := _OTHERS.match(text, at):
            at = match.end()
            continue
        line = text.count('\n', 0, at) + 1
        for macro, pattern in _ENTRY_PATTERNS.items():
            if match := pattern.match(text, at):
                yield line, macro, match
                at = match.end()
                break
        else:
            shown = text[at:].partition('\n')[0]
            raise ValueError(f'enumerations.h, line {line}: not an entry of '
                             f'a list: {shown}')


def parse(text: str) -> dict[str, tuple[Entry, ...]]:
    """Return the entries of each macro, by the macro's name.

    :raises ValueError: a line is not an entry, repeats a name or is out of
        order; or a list is empty.
    """
    lists: dict[str, list[Entry]] = {macro: [] for macro in _ENTRY}
    for line, macro, match in _matches(text):
        entries = lists[macro]
        entry = Entry(match['name'], int(match['number']), match['word'],
                      ''.join(re.findall(_STRING, match['text'])),
                      int(match.groupdict().get('shim') or 0))
        if entry.number != len(entries):
            raise ValueError(f'enumerations.h, line {line}: {entry.name} has '
                             f'number {entry.number}, not {len(entries)}')
        if any(entry.name == other.name or
               (macro == ENCAPSULATION and entry.word == other.word)
               for other in entries):
            raise ValueError(
                f'enumerations.h, line {line}: {entry.name} is there twice')
        entries.append(entry)
    for macro, entries in lists.items():
        if not entries:
            raise ValueError(f'enumerations.h: no {macro}')
    return {macro: tuple(entries) for macro, entries in lists.items()}


CONTRACT = parse(
    resources.files('octavia_xdp_provider.contracts')
    .joinpath('enumerations.h')
    .read_text(encoding='utf-8')
)


class _Listed(enum.EnumMeta):
    """Metaclass of an enum with the contract's entries of a macro as members.

    With a class statement instead of a call of IntEnum type checkers know
    that it is a type, without knowing its members.
    """

    def __new__(metacls, name: str, bases: tuple[type, ...],
                namespace: typing.Any, *, macro: str) -> typing.Any:
        for entry in CONTRACT[macro]:
            namespace[entry.name] = entry.number
        return super().__new__(metacls, name, bases, namespace)

    def __init__(cls, name: str, bases: tuple[type, ...],
                 namespace: typing.Any, *, macro: str) -> None:
        super().__init__(name, bases, namespace)

    if typing.TYPE_CHECKING:
        def __getattr__(cls, name: str) -> typing.Any:
            """Return a member."""


class Outcome(enum.IntEnum, metaclass=_Listed, macro=OUTCOME):
    """What happened to a packet: enum oxp_outcome."""


class ProbeOutcome(enum.IntEnum, metaclass=_Listed, macro=PROBE_OUTCOME):
    """What happened to a marked packet: enum oxp_probe_outcome."""


class HostOutcome(enum.IntEnum, metaclass=_Listed, macro=HOST_OUTCOME):
    """What happened to a packet on a hypervisor: enum oxp_host_outcome."""


class Decision(enum.IntEnum, metaclass=_Listed, macro=DECISION):
    """A step of the program with a packet: enum oxp_decision_kind."""


class Encapsulation(enum.IntEnum, metaclass=_Listed, macro=ENCAPSULATION):
    """How packets get to members: enum oxp_encapsulation."""


# Names of the arguments of decisions, and what decisions mean.
ARGUMENTS = {Decision(entry.number): tuple(entry.word.split())
             for entry in CONTRACT[DECISION]}
MEANINGS = {Decision(entry.number): entry.text for entry in CONTRACT[DECISION]}
# Bytes between the outer IP header and the packet.
SHIMS = {Encapsulation(entry.number): entry.shim
         for entry in CONTRACT[ENCAPSULATION]}
# Names of the encapsulations in flavors.
ENCAPSULATIONS = tuple(entry.word for entry in CONTRACT[ENCAPSULATION])

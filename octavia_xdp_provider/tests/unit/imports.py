# SPDX-License-Identifier: Apache-2.0
"""Which Python modules import which, read from their source."""

import ast


def names(path):
    """Full names of everything that a file imports, wherever in it.

    Imports in functions and those for type checkers count as all others.
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            # Relative imports are not the custom here; see test_layout.
            for alias in node.names:
                yield '.'.join(filter(None, (
                    '.' * node.level + (node.module or ''), alias.name)))


def modules(packages):
    """Name of a module → its file, of all modules in some directories."""
    found = {}
    for package in packages:
        for path in package.rglob('*.py'):
            parts = path.relative_to(package.parent).with_suffix('').parts
            if parts[-1] == '__init__':
                parts = parts[:-1]
            found['.'.join(parts)] = path
    return found


def graph(packages):
    """Name of a module → names of the modules there that it imports."""
    files = modules(packages)
    return {name: {target for target in (
                       _module(imported, files) for imported in names(path))
                   if target and target != name}
            for name, path in files.items()}


def _module(imported, files):
    """The module of a name that may be something in a module."""
    if imported in files:
        return imported
    parent = imported.rpartition('.')[0]
    return parent if parent in files else None


def circle(edges):
    """Modules that import each other in a circle, first and last the same.

    An empty list if there is no circle.
    """
    done = set()

    def walk(name, path):
        if name in path:
            return path[path.index(name):] + [name]
        if name in done:
            return []
        for target in sorted(edges[name]):
            found = walk(target, path + [name])
            if found:
                return found
        done.add(name)
        return []

    for name in sorted(edges):
        found = walk(name, [])
        if found:
            return found
    return []

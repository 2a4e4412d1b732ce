# SPDX-License-Identifier: Apache-2.0
"""Configuration files in oslo.config's format."""


def write(path, *layers):
    """Write sections of options; later layers override earlier ones.

    A layer is a dictionary: section → option → value.
    """
    sections = {}
    for layer in layers:
        for section, options in layer.items():
            sections.setdefault(section, {}).update(options)
    lines = []
    for section, options in sections.items():
        lines.append(f'[{section}]')
        lines += [f'{name} = {value}' for name, value in options.items()]
        lines.append('')
    path.touch(mode=0o600)
    path.write_text('\n'.join(lines))

# SPDX-License-Identifier: Apache-2.0
"""The figures for people."""

BURST = """\
### {title}

| prober | wall, least | median | CPU, least | median | CPU a probe | memory \
| failures |
|---|---|---|---|---|---|---|---|"""
NAMES = {'checker': 'octavia-xdp-hc', 'c': 'C, epoll',
         'c_tuned': 'C, epoll, delayed ACK and reset', 'go': 'Go, net/http'}


def markdown(figures):
    """All figures as Markdown."""
    lines = ['## Health checker', '']
    for key, title in (('burst_http_28000', 'HTTP burst'),
                       ('burst_https_8000', 'HTTPS burst')):
        if key in figures:
            lines += _burst(title, figures[key])
    rows = [(key, figures[key]) for key in figures
            if key.startswith('steady_')]
    if rows:
        lines += ['### Steady state', '',
                  '| case | cores | CPU a probe | late p99 | false downs '
                  '| memory |', '|---|---|---|---|---|---|']
        lines += [
            f'| {one["conditions"]} {key.split("_")[1].upper()} every '
            f'{one["delay_s"]} s | {one["cores"]:.2f} '
            f'| {one["cpu_us_per_probe"]:.0f} µs '
            f'| {one["late_p99_ms"]:.1f} ms | {one["false_downs"]} '
            f'| {one["rss_mb"]:.0f} MB |' for key, one in rows] + ['']
    if 'result_to_table' in figures:
        lines += _table(figures['result_to_table'])
    return '\n'.join(lines)


def _burst(title, figures):
    lines = [BURST.format(title=f'{title}, {figures["probes"]} targets')]
    for name, one in figures['probers'].items():
        wall, cpu = one['wall_s'], one['cpu_s']
        lines.append(
            f'| {NAMES[name]} | {wall["minimum"]:.2f} s '
            f'| {wall["median"]:.2f} s | {cpu["minimum"]:.2f} s '
            f'| {cpu["median"]:.2f} s '
            f'| {one["cpu_us_per_probe"]["minimum"]:.0f} µs '
            f'| {one["rss_mb"]:.0f} MB | {one["failures"]} |')
    ratios = [
        f'{NAMES[name]}: wall {figures[f"wall_ratio_{name}"]:.2f}, CPU '
        f'{figures[f"cpu_ratio_{name}"]:.2f}'
        for name in figures['probers'] if name != 'checker']
    return lines + ['', 'octavia-xdp-hc against ' + '; '.join(ratios), '']


def _table(one):
    return [
        '### Result in the queue to switched table', '',
        f'{one["services"]} services, {one["results"]} members.', '',
        '| one change, p50 | p99 | all at once | handler\'s memory | tables |',
        '|---|---|---|---|---|',
        f'| {one["p50_ms"]:.1f} ms | {one["p99_ms"]:.1f} ms '
        f'| {one["all_20000_ms"]:.0f} ms | {one["rss_mb"]:.0f} MB '
        f'| {one["table_mb"]:.0f} MB |', '']

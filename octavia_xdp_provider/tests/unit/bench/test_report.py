# SPDX-License-Identifier: Apache-2.0
"""Reports: whole, escaped, marked, without a reference to anything else."""

import functools
from html import parser
import re
from xml.etree import ElementTree

from bench.report import html
from bench.report import markdown
from bench.report import plots
from bench.report import words
from bench.results import comparison
from bench.results import model
from bench.results import verdict
from octavia_xdp_provider.tests.unit import base
from octavia_xdp_provider.tests.unit.bench import results

EVIL = '<script>alert(1)</script>" onload="x" $\\frac{ | `code` @all [a](b)'


def swept(name='rate', unit='packets/s', software='xdp'):
    """Cases over sizes, flows and VIPs."""
    for coordinate, values in (('size', (64, 512, 1500)),
                               ('flows', (1, 1024, 1048576)),
                               ('vips', (1, 1000))):
        for value in values:
            yield results.case(
                f'{name}/{coordinate}/{value}', unit=unit, software=software,
                samples=[1e6 + value, 1.1e6 + value, 1.05e6 + value],
                coordinates={coordinate: value})


def rich_run(**values):
    """With all that is drawn, and with names that mean harm."""
    return results.run(
        *swept(), *swept('latency', 'ns'), *swept(software='haproxy'),
        results.case(EVIL, software=EVIL, marks=[EVIL],
                     coordinates={EVIL: 1, 'other': EVIL}),
        results.case(EVIL + '2', software=EVIL, unit=EVIL,
                     coordinates={EVIL: 2, 'other': EVIL}),
        results.case('missing', samples=[], marks=['not installed']),
        results.case('death', unit='packets', better='lower',
                     samples=[17.0], timeline=[(0.1, 1000, 0), (0.2, 990, 17)],
                     events=[(0.15, EVIL)]),
        versus=[model.Versus('haproxy', 'rate/size/64', 3.0, 2.5, 3.5),
                model.Versus(EVIL, EVIL, 0.5, 0.4, 0.6)],
        fingerprint={'kernel': EVIL}, **values)


def rich_comparison(in_turn=True):
    before, after = rich_run(id=1), rich_run(id=2)
    for run in before, after:
        run.fingerprint = {'kernel': EVIL + str(run.id),
                           **({'in_turn': 'a'} if in_turn else {})}
        for case in run.cases:
            case.samples *= 5
    for case in after.cases[:3]:
        case.samples = [value / 2 for value in case.samples]
    after.cases.append(results.case('new|case'))
    return comparison.compare(before, after, verdict.Interest())


class Page(parser.HTMLParser):
    """Collects what a browser would load or run, and the page's structure."""

    VOID = {'meta', 'br', 'link', 'img', 'input', 'hr'}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.labels = [], [], [], []
        self.references, self.text = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.note(tag, attributes)

    def handle_startendtag(self, tag, attributes):
        self.note(tag, attributes)

    def note(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name == 'id':
                self.ids.append(value)
            elif name == 'aria-labelledby':
                self.labels += value.split()
            elif name in ('src', 'href', 'xlink:href', 'srcset', 'action',
                          'data', 'poster', 'background') \
                    or name.startswith('on'):
                self.references.append((tag, name, value))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if 'style' not in self.open:
            self.text.append(data)


@functools.cache
def pages():
    """Return reports of a run and a comparison; drawing takes seconds."""
    history = [results.run(*rich_run().cases[:9], commit=f'{number}' * 12)
               for number in range(3)]
    return (html.of_run(rich_run(), history),
            html.of_comparison(rich_comparison(), history))


class TestHtml(base.TestCase):

    def setUp(self):
        super().setUp()
        self.texts = pages()

    def test_nothing_is_fetched_and_nothing_runs(self):
        for text in self.texts:
            page = Page(text)
            self.assertEqual([], page.open)
            self.assertEqual(set(), {'script', 'img', 'link', 'iframe',
                                     'object', 'embed', 'base', 'form',
                                     'image', 'foreignObject'}
                             & set(page.tags))
            self.assertNotEqual([], page.references)
            for tag, name, value in page.references:
                self.assertEqual(('use', 'href', '#'),
                                 (tag, name, value[:1]))
                self.assertIn(value[1:], page.ids)
            self.assertEqual([], [
                link for link in re.findall(r'url\(([^)]*)\)', text)
                if link[1:] not in page.ids])
            self.assertNotIn('@import', text)
            # Names of namespaces are not fetched.
            self.assertEqual({'http://www.w3.org/2000/svg'},
                             set(re.findall(r'\w+://[^"\s]*', text)))

    def test_each_picture_has_a_title_and_a_text(self):
        for text in self.texts:
            page = Page(text)
            self.assertEqual(len(page.ids), len(set(page.ids)))
            self.assertGreater(page.tags.count('svg'), 10)
            self.assertEqual(page.tags.count('svg'), page.tags.count('desc'))
            self.assertEqual([], [label for label in page.labels
                                  if label not in page.ids])

    def test_pictures_are_xml_in_the_colour_of_the_page(self):
        for text in self.texts:
            for picture in re.findall(r'<svg.*?</svg>', text, re.S):
                root = ElementTree.fromstring(picture)  # noqa: S314
                self.assertEqual('img', root.get('role'))
                self.assertIn('currentColor', picture)
                self.assertNotIn('#000000', picture)

    def test_all_that_is_known_is_shown(self):
        shown = ' '.join(Page(self.texts[0]).text)
        for expected in ('rate/size/64', 'not installed', EVIL,
                         'size', 'flows', 'vips', '17 of 1990 packets lost',
                         'over commits', 'Times better than haproxy'):
            self.assertIn(expected, shown)
        shown = ' '.join(Page(self.texts[1]).text)
        for expected in ('Verdict: ≠ changed', 'worse', 'Only after',
                         'new|case', 'same'):
            self.assertIn(expected, shown)

    def test_same_run_is_the_same_page(self):
        run = results.run(*swept())
        self.assertEqual(html.of_run(run), html.of_run(run))


class TestMarkdown(base.TestCase):

    def test_verdict_is_first_and_tables_are_folded(self):
        text = markdown.of_comparison(rich_comparison())
        self.assertTrue(text.startswith('## Benchmarks: ≠ changed\n'))
        self.assertLess(text.index('rate/size/64'),
                        text.index('<details><summary>'))
        self.assertEqual(text.count('<details>'), text.count('</details>'))
        self.assertIn('3 changed', text)

    def test_marks_are_never_folded(self):
        for text in (markdown.of_run(rich_run()),
                     markdown.of_comparison(rich_comparison())):
            unfolded = re.sub('<details>.*?</details>', '', text, flags=re.S)
            self.assertIn('not installed', unfolded)

    def test_runs_apart_are_noted(self):
        self.assertIn('not measured in turn', markdown.of_comparison(
            rich_comparison(in_turn=False)))

    def test_names_stay_in_their_cells(self):
        for text in (markdown.of_run(rich_run()),
                     markdown.of_comparison(rich_comparison())):
            plain = re.sub('`[^`]*`', '', text)
            self.assertNotIn('<script>', plain)
            self.assertNotIn('@all', plain)
            self.assertNotIn('[a](b)', plain)
            columns = None
            for line in text.splitlines():
                count = len(re.findall(r'(?<!\\)\|', line))
                if line.startswith('|'):
                    columns = columns or count
                    self.assertEqual(columns, count, line)
                else:
                    columns = None

    def test_text_that_would_be_a_link_or_a_mention(self):
        self.assertEqual('&#42;a&#42; &lt;b> &#64;c &#35;1 x:&#47;/y '
                         'www&#46;z &amp;amp;'.replace('>', '&gt;'),
                         markdown.escape('*a* <b>\n@c #1 x://y www.z &amp;'))
        self.assertEqual("`a'b\\|c`", markdown.code('a`b|c'))


class TestPlots(base.TestCase):

    def test_one_for_each_coordinate_and_unit(self):
        cases = [*swept(), *swept('latency', 'ns')]
        self.assertEqual(
            [f'{what} by {coordinate}' for coordinate, what in (
                ('size', 'rate/size (packets/s)'),
                ('size', 'latency/size (ns)'),
                ('flows', 'rate/flows (packets/s)'),
                ('flows', 'latency/flows (ns)'),
                ('vips', 'rate/vips (packets/s)'),
                ('vips', 'latency/vips (ns)'))],
            [plot.title for plot in plots.against_coordinates(cases)])

    def test_many_series_are_divided(self):
        cases = [case for number in range(14)
                 for case in swept(software=f's{number}')]
        self.assertEqual(9, len(list(plots.against_coordinates(cases))))

    def test_marked_points_have_one_entry_in_the_legend(self):
        cases = [*swept(), *swept(software='haproxy')]
        for case in cases:
            case.marks = ['other load: 46 %']
        plot = next(plots.against_coordinates(cases))
        self.assertEqual(1, plot.svg.count('>marked<'))
        for size in '64', '512', '1,500':
            self.assertIn(f'>{size}<', plot.svg)

    def test_trend_needs_two_runs(self):
        run = results.run(results.case())
        self.assertEqual([], list(plots.trends([run], run.cases)))
        self.assertEqual(1, len(list(plots.trends([run, run], run.cases))))


class TestWords(base.TestCase):

    def test_figures(self):
        for value, unit, text in (
                (1234567, 'packets/s', '1.23 Mpackets/s'),
                (999999, 'packets/s', '1 Mpackets/s'),
                (45.25, 'ns', '45.2 ns'), (1500, 'ns', '1.5 µs'),
                (0, 'packets', '0 packets'), (-3, 'ns', '-3 ns'),
                (0.0025, 's', '2.5 ms'), (0.125, '1', '0.125'),
                (0, 's', '0 s'), (1e12, 'bytes', '1,000 Gbytes')):
            self.assertEqual(text, words.figure(value, unit))

# SPDX-License-Identifier: Apache-2.0
"""A tenant's walk through Horizon in a real browser.

Each step is recorded in build/horizon.json, with a picture in
build/horizon-pictures.
"""

from lab import cloud
from lab import demo_steps
from lab import deployment
from lab import namespaces
from lab import paths
from lab import processes
from lab import surroundings
from lab.control import octavia
from lab.control import secret
from lab.fabric import capture
from lab.fabric import client
from lab.fabric import members
from lab.fabric import proxies
from lab.fabric import router
from lab.fabric import topology
from lab.horizon import browser
from lab.horizon import dashboard
from lab.horizon import environment
from lab.horizon import wizard

REPORT = paths.BUILD / 'horizon.json'
PICTURES = paths.BUILD / 'horizon-pictures'
BALANCER, LISTENER, POOL = 'shop', 'shop-http', 'shop-servers'
HTTP_BALANCER, PROXIES = 'shop-proxied', 1
REFUSED = 'refused'
PORT = 80
# UDP has no connections, so this listener cannot have a connection limit.
UDP_LISTENER, UDP_PORT = 'shop-udp', 5000
DRAINED = topology.MEMBERS[0]
REQUESTS = 200
TIMEOUT_S = 120

_expect = demo_steps.expect


class Walk(demo_steps.Steps):
    """The steps of a tenant in the browser."""

    def __init__(self, lab, keep, existing=False):
        """:param existing: the lab is up, with a second provider."""
        super().__init__(lab, REPORT)
        self.keep = keep
        self.existing = existing
        self.browser = None
        self.address = None
        self.vip = None

    def check(self):
        surroundings.check(
            self.lab, ('chromedriver', 'chromium', 'socat',
                       *(() if self.existing else proxies.PROGRAMS)),
            {environment.VENV / 'bin' / name: 'tools/setup horizon'
             for name in ('gunicorn', 'nova-manage')})
        if self.existing and not namespaces.exists(self.lab, paths.CONTROL):
            raise paths.LabError(
                f'lab {self.lab.name} is not up; python -m lab.demo '
                f'--name {self.lab.name} --keep-lab starts it')

    def run(self):
        """Run all steps.

        :raises demo_steps.StepFailed: a step failed.
        """
        if not self.existing:
            self.step('bring up control host, fabric, LB nodes and a proxy '
                      'node', lambda: deployment.up(
                          self.lab, others=(octavia.NOOP,), proxies=PROXIES))
        self.step('start Nova and Horizon', self.start)
        with browser.opened(self.lab, PICTURES) as self.browser:
            self.step('log in', self.log_in)
            self.step('open Project, Network, Load Balancers',
                      self.open_load_balancers)
            self.step('the wizard offers HTTP and all algorithms',
                      self.check_choices)
            self.step('create a load balancer in the wizard', self.create)
            self.step('wait for ACTIVE and ONLINE', self.wait_online)
            self.step(f'{REQUESTS} requests', self.request)
            self.step('set a member\'s weight to 0', self.drain)
            self.step('an invalid creation is refused', self.create_refused)
            self.step('an invalid change is refused', self.change_refused)
            self.step('create a load balancer of HTTP in the wizard',
                      self.create_http)
            if not self.keep:
                self.step('delete the load balancer', self.delete)

    def start(self):
        self.address = dashboard.start(self.lab)
        return self.address

    def log_in(self):
        self.browser.open(dashboard.URL)
        self.browser.type('//input[@id="id_username"]', cloud.TENANT)
        self.browser.type('//input[@id="id_password"]',
                          secret.password(self.lab, cloud.TENANT))
        self.browser.picture('log-in')
        self.browser.click('//button[@id="loginBtn"]')
        self.browser.shows('Overview')
        return f'as {cloud.TENANT}'

    def open_load_balancers(self):
        link = '//a[@href="/project/load_balancer/"]'
        network = _heading('Network')
        for heading, below in ((_heading('Project'), network),
                               (network, link)):
            if not self.browser.find(below):
                self.browser.click(heading)
            self.browser.wait(below, lambda below=below: (
                self.browser.find(below)))
        self.browser.click(link, 'Load Balancers')
        self.browser.shows('Create Load Balancer')
        self.browser.picture('list')
        return 'no load balancer yet'

    # The wizard

    def check_choices(self):
        form = wizard.Wizard(self.browser)
        # Without a key manager service octavia-dashboard alone loses one more
        # protocol each time.
        for _ in range(2):
            form.open()
            protocols, algorithms = form.protocols(), form.algorithms()
            _expect(set(protocols) == {'HTTP', 'HTTPS', 'TCP', 'UDP', 'SCTP'},
                    f'protocols: {protocols}')
            _expect(set(algorithms) == {
                'Least Connections', 'Round Robin', 'Source IP',
                'Source IP:Port'}, f'algorithms: {algorithms}')
            form.cancel()
        return f'{", ".join(protocols)}; {", ".join(algorithms)}'

    def fill_in(self, name, picture=lambda _name: None, protocol='TCP',
                algorithm='Source IP:Port', member_port=PORT):
        """:param picture: called with the name of each completed page."""
        form = wizard.Wizard(self.browser)
        form.open()
        form.details(name, octavia.XDP, 'vips-v4')
        picture('details')
        form.listener(LISTENER, protocol, PORT)
        picture('listener')
        form.pool(POOL, algorithm)
        picture('pool')
        for member in topology.MEMBERS:
            form.member(members.address(member), 'members-v4', member_port)
        picture('members')
        form.monitor('HTTP', 2, 1)
        picture('monitor')
        form.finish()

    def create(self):
        self.fill_in(BALANCER, self.browser.picture)
        self.browser.shows(BALANCER)
        self.vip = self.call_api('find_load_balancer', BALANCER).vip_address
        members.add_vip(self.lab, self.vip, topology.MEMBERS)
        return f'VIP {self.vip}'

    def call_api(self, method, *arguments):
        """Call a method of Octavia's API in a new connection."""
        return getattr(cloud.connect(self.lab).load_balancer, method)(
            *arguments)

    def wait_status(self, name):
        processes.wait_for('an ACTIVE and ONLINE load balancer', lambda: (
            _status(self.call_api('find_load_balancer', name))
            == ('ACTIVE', 'ONLINE')), TIMEOUT_S, 0.5)

    def wait_online(self):
        self.wait_status(BALANCER)
        self.browser.driver.refresh()
        row = (f'//tr[.//a[normalize-space(.)="{BALANCER}"]]'
               '[contains(., "Online")][contains(., "Active")]')
        self.browser.wait('load balancer that is online and active',
                          lambda: self.browser.find(row))
        self.browser.picture('online')
        processes.wait_for(
            'a route through both LB nodes',
            lambda: len(router.next_hops(self.lab, self.vip))
            == len(topology.NODES), TIMEOUT_S)
        return f'{self.vip} via {len(topology.NODES)} LB nodes'

    # Traffic

    def answers(self, number=REQUESTS):
        answers = client.requests(self.lab, f'http://{self.vip}/', number)
        _expect(not answers.failures,
                f'{len(answers.failures)} of {number} requests failed, first: '
                f'{"".join(answers.failures[:1])}')
        return answers.count

    def request(self):
        before = [capture.packets_to(self.lab, node)
                  for node in topology.NODES]
        count = self.answers()
        _expect(set(count) == set(topology.MEMBERS),
                f'only {sorted(count)} answered')
        through = [capture.packets_to(self.lab, node) - packets for
                   node, packets in zip(topology.NODES, before, strict=True)]
        _expect(all(through), f'packets by node: {through}')
        return f'all answered: {dict(sorted(count.items()))}'

    def drain(self):
        self.browser.click(f'//a[normalize-space(.)="{BALANCER}"]')
        self._tab('Pools')
        self.browser.click(f'//a[normalize-space(.)="{POOL}"]')
        self._tab('Members')
        row = (f'//tr[contains(., "{members.address(DRAINED)}")]')
        self.browser.wait(DRAINED, lambda: self.browser.find(row))
        self.browser.picture('members-of-the-pool')
        self.browser.click(f'{row}//button[contains(., "Edit Member")]'
                           f'|{row}//a[contains(., "Edit Member")]')
        weight = '//input[@name="weight"]'
        self.browser.reads(weight, 1)
        self.browser.type(weight, 0)
        self.browser.picture('weight')
        self.browser.click('//button[contains(., "Update")]')
        processes.wait_for(
            'the end of new connections to it',
            lambda: DRAINED not in self.answers(40), TIMEOUT_S, 0.5)
        return (f'{DRAINED} gets no new connection: '
                f'{dict(sorted(self.answers().items()))}')

    # Refusals

    def list_page(self):
        self.browser.open(f'{dashboard.URL}/project/load_balancer/')
        self.browser.shows('Create Load Balancer')

    def refusal(self, *words):
        """Wait for an error on the page with these words, and return it."""
        errors = self.browser.wait('error', lambda: [
            element.text for element in self.browser.find(
                '//div[contains(@class, "alert-danger") or '
                'contains(@class, "alert-error")]') if element.text.strip()])
        text = ' '.join(errors)
        for word in words:
            _expect(word in text, f'the page shows {text!r}, without {word!r}')
        return ' '.join(text.split())

    def create_refused(self):
        self.list_page()
        self.fill_in(REFUSED, member_port=8080)
        error = self.refusal('protocol_port', '8080')
        self.browser.picture('refused')
        load_balancer = self.call_api('find_load_balancer', REFUSED)
        _expect(load_balancer is None, f'{REFUSED} exists: {load_balancer}')
        with namespaces.inside(self.lab, paths.CONTROL):
            names = [port.name for port in
                     cloud.connect(self.lab).network.ports()]
        _expect(len(names) == 1, f'ports: {names}')
        return f'{error} — and nothing was created'

    def change_refused(self):
        self.openstack(
            'loadbalancer', 'listener', 'create', '--name', UDP_LISTENER,
            '--protocol', 'UDP', '--protocol-port', str(UDP_PORT), '--wait',
            '-f', 'value', '-c', 'provisioning_status', BALANCER)
        self.list_page()
        self.browser.click(f'//a[normalize-space(.)="{BALANCER}"]')
        self._tab('Listeners')
        row = f'//tr[.//a[normalize-space(.)="{UDP_LISTENER}"]]'
        self.browser.click(f'{row}//button[contains(., "Edit Listener")]'
                           f'|{row}//a[contains(., "Edit Listener")]')
        self.browser.reads('//input[@name="name"]', UDP_LISTENER)
        self.browser.type('//input[@name="connection_limit"]', 10)
        self.browser.click('//button[contains(@class, "finish")]')
        error = self.refusal('connection_limit', 'UDP')
        self.browser.picture('refused-change')
        self.answers()
        return f'{error} — and traffic continues'

    def create_http(self):
        self.list_page()
        self.fill_in(HTTP_BALANCER, protocol='HTTP', algorithm='Round Robin')
        if not proxies.names(self.lab):
            error = self.refusal('protocol', 'HTTP', 'needs a proxy node')
            return f'without a proxy node it is refused: {error}'
        self.browser.shows(HTTP_BALANCER)
        self.wait_status(HTTP_BALANCER)
        vip = self.call_api('find_load_balancer', HTTP_BALANCER).vip_address
        processes.wait_for('answers of all members', lambda: set(
            client.requests(self.lab, f'http://{vip}/', 40, 2).count
        ) == set(topology.MEMBERS), TIMEOUT_S)
        self.openstack('loadbalancer', 'delete', '--cascade', '--wait',
                       HTTP_BALANCER)
        return 'all members answered, by Round Robin on a proxy node'

    def delete(self):
        self.list_page()
        row = f'//tr[.//a[normalize-space(.)="{BALANCER}"]]'
        self.browser.click(f'{row}//*[self::button or self::a]'
                           '[contains(@class, "dropdown-toggle")]')
        self.browser.click(f'{row}//a[contains(., "Delete Load Balancer")]'
                           f'|{row}//button[contains(., "Delete Load")]')
        self.browser.shows('Confirm Delete')
        self.browser.picture('delete')
        self.browser.click('//div[contains(@class, "modal-content")]'
                           '//button[contains(@class, "btn-danger")]')
        processes.wait_for(
            'the end of the load balancer', lambda: self.call_api(
                'find_load_balancer', BALANCER) is None, TIMEOUT_S, 0.5)
        processes.wait_for(
            'the end of its route',
            lambda: not router.next_hops(self.lab, self.vip), TIMEOUT_S)
        return f'no route to {self.vip} any more'

    def _tab(self, title):
        self.browser.click('//ul[contains(@class, "nav-tabs")]//a'
                           f'[normalize-space(.)="{title}"]', title)


def _heading(text):
    """Return the XPath of a heading in Horizon's side navigation."""
    return f'//*[@id="sidebar-accordion"]//a[normalize-space(.)="{text}"]'


def _status(load_balancer):
    return load_balancer.provisioning_status, load_balancer.operating_status

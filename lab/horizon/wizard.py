# SPDX-License-Identifier: Apache-2.0
"""Fill in the pages of octavia-dashboard."""

_STEP = '//div[contains(@class, "step") and not(contains(@class, "ng-hide"))]'
_MODAL = '//div[contains(@class, "modal-content")]'


class Wizard:
    """The wizard that creates a load balancer."""

    def __init__(self, browser):
        self.browser = browser

    def open(self):
        """Open the wizard from the list of load balancers."""
        self.browser.click(
            '//button[contains(., "Create Load Balancer")]'
            '|//a[contains(., "Create Load Balancer")]')
        self.browser.shows('Provide the details for the load balancer.')

    def step(self, title):
        """Go to a page by its title on the left."""
        self.browser.click(
            f'{_MODAL}//li[contains(@class, "nav-item")]'
            f'[contains(., "{title}")]', title)

    def details(self, name, provider, subnet):
        """Fill in name, provider and the VIP's subnet."""
        self.browser.type(f'{_STEP}//input[@name="name"]', name)
        self._filter('Provider', provider)
        self._filter('Subnet', subnet)

    def listener(self, name, protocol, port):
        """Fill in the listener's page."""
        self.step('Listener Details')
        self.browser.type(f'{_STEP}//input[@name="name"]', name)
        self.browser.select(f'{_STEP}//select[@name="protocol"]', protocol)
        self.browser.type(f'{_STEP}//input[@name="port"]', port)

    def pool(self, name, algorithm):
        """Fill in the pool's page."""
        self.step('Pool Details')
        self.browser.type(f'{_STEP}//input[@name="name"]', name)
        self.browser.select(f'{_STEP}//select[@name="method"]', algorithm)

    def algorithms(self):
        """Return the algorithms that the pool's page offers."""
        self.step('Pool Details')
        return self.browser.options(f'{_STEP}//select[@name="method"]')

    def protocols(self):
        """Return the protocols that the listener's page offers."""
        self.step('Listener Details')
        return self.browser.options(f'{_STEP}//select[@name="protocol"]')

    def member(self, address, subnet, port):
        """Add an external member."""
        self.step('Pool Members')
        self.browser.click(f'{_STEP}//button[contains(., "external member")]'
                           f'|{_STEP}//a[contains(., "external member")]')
        row = f'({_STEP}//tr[{_input("address")}])[last()]'
        self.browser.type(f'{row}{_input("address", "//")}', address)
        self.browser.select(f'{row}//select', subnet)
        self.browser.type(f'{row}{_input("port", "//")}', port)

    def monitor(self, kind, delay, timeout):
        """Fill in the health monitor's page."""
        self.step('Monitor Details')
        self.browser.select(f'{_STEP}//select[@name="type"]', kind)
        self.browser.type(f'{_STEP}//input[@name="timeout"]', timeout)
        self.browser.type(f'{_STEP}//input[@name="interval"]', delay)

    def finish(self):
        """Submit the wizard, which closes it."""
        self.browser.click(f'{_MODAL}//button[contains(@class, "finish")]')

    def cancel(self):
        """Close the wizard without submitting it."""
        button = f'{_MODAL}//button[contains(., "Cancel")]'
        self.browser.click(button)
        self.browser.wait('closed wizard',
                          lambda: not self.browser.find(_MODAL))

    def _filter(self, label, text):
        """Select a row of a drop-down table with a filter."""
        group = (f'{_STEP}//div[contains(@class, "form-group")]'
                 f'[.//label[contains(., "{label}")]]')
        self.browser.click(f'{group}//button[contains(@class, "dropdown")]',
                           label)
        self.browser.click(
            f'{group}//tr[./td[contains(normalize-space(.), "{text}")]]', text)


def _input(name, where='.//'):
    """Return the XPath of an input of a member, not of its monitor."""
    return (f'{where}input[contains(@name, "-{name}") and '
            'not(contains(@name, "monitor"))]')

# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium on the control host, for use of Horizon like a person.

Elements are found by their visible text, if they have one.
"""

import contextlib
import shutil
import tempfile

from selenium import webdriver
from selenium.common import exceptions
from selenium.webdriver.common.by import By
from selenium.webdriver.support import ui

from lab import namespaces
from lab import paths
from lab import processes
from lab.control import mariadb

NAME = 'chromedriver'
PORT = 9515
WIDTH, HEIGHT = 1200, 860
TIMEOUT_S = 60
# Errors that occur while Angular redraws: retry.
_REDRAWN = (exceptions.StaleElementReferenceException,
            exceptions.ElementNotInteractableException,
            exceptions.ElementClickInterceptedException,
            exceptions.NoSuchElementException)


class Browser:
    """Use it within lab.namespaces.inside(lab, lab.paths.CONTROL)."""

    def __init__(self, lab, driver, pictures):
        self.lab = lab
        self.driver = driver
        self.pictures = pictures

    def open(self, url):
        """Load a page."""
        self.driver.get(url)

    def wait(self, what, condition, timeout=TIMEOUT_S):
        """Call condition() until it returns a true value; return that.

        :raises paths.LabError: it did not in time; takes a picture.
        """
        try:
            return ui.WebDriverWait(
                self.driver, timeout, 0.2, ignored_exceptions=_REDRAWN,
            ).until(lambda _driver: condition())
        except exceptions.TimeoutException:
            self.picture('failed')
            raise paths.LabError(
                f'Horizon showed no {what} within {timeout} s; see '
                f'{self.pictures / "failed.png"}; it shows:\n'
                f'{self.text()[-1500:]}') from None

    def find(self, xpath, within=None):
        """Return the visible elements of an XPath."""
        return [element for element in (within or self.driver).find_elements(
            By.XPATH, xpath) if element.is_displayed()]

    def click(self, xpath, what=None):
        """Click the first visible and enabled element of an XPath."""
        def click():
            for element in self.find(xpath):
                if element.is_enabled():
                    element.click()
                    return True
            return False
        self.wait(what or xpath, click)

    def type(self, xpath, text):
        """Replace an input's content."""
        def enter():
            for element in self.find(xpath):
                element.clear()
                element.send_keys(str(text))
                # The page may fill in the present value meanwhile.
                return element.get_attribute('value') == str(text)
            return False
        self.wait(f'input {xpath}', enter)

    def reads(self, xpath, text):
        """Wait until an input has a value."""
        self.wait(f'{text!r} in {xpath}', lambda: any(
            element.get_attribute('value') == str(text)
            for element in self.find(xpath)))

    def select(self, xpath, text):
        """Select the option of a list with this text."""
        def choose():
            for element in self.find(xpath):
                with contextlib.suppress(exceptions.NoSuchElementException):
                    ui.Select(element).select_by_visible_text(text)
                    return True
            return False
        self.wait(f'{text} in {xpath}', choose)

    def options(self, xpath):
        """Return the texts of a list's options, without empty ones."""
        lists = self.wait(f'list {xpath}', lambda: self.find(xpath))
        return [option.text.strip() for option in ui.Select(lists[0]).options
                if option.text.strip()]

    def text(self):
        """Return the visible text of the page."""
        return self.driver.find_element(By.TAG_NAME, 'body').text

    def shows(self, text):
        """Wait until the page shows a text."""
        self.wait(repr(text), lambda: text in self.text())

    def picture(self, name):
        """Save a small PNG of the window."""
        path = self.pictures / f'{name}.png'
        self.driver.save_screenshot(str(path))
        if shutil.which('pngquant'):
            processes.run(self.lab, None, ['pngquant', '--force', '--ext',
                                           '.png', '48', path])


@contextlib.contextmanager
def opened(lab, pictures):
    """Open a browser with a directory for its pictures."""
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    processes.start(
        lab, paths.CONTROL, NAME, [NAME, f'--port={PORT}'],
        env={'TMPDIR': lab.run_directory},
        ready=lambda: mariadb.listening(lab, '127.0.0.1', PORT))
    try:
        with (tempfile.TemporaryDirectory(
                dir=lab.run_directory,
                ignore_cleanup_errors=True) as profile,
                namespaces.inside(lab, paths.CONTROL)):
            driver = webdriver.Remote(f'http://127.0.0.1:{PORT}',
                                      options=_options(profile))
            try:
                yield Browser(lab, driver, pictures)
            finally:
                driver.quit()
    finally:
        processes.stop(lab, NAME)


def _options(profile):
    options = webdriver.ChromeOptions()
    for argument in (
            '--headless=new', f'--window-size={WIDTH},{HEIGHT}',
            # Its sandbox does not work for root; it opens only lab pages.
            '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu',
            '--no-first-run', '--disable-background-networking',
            f'--user-data-dir={profile}'):
        options.add_argument(argument)
    return options

"""A page is read when it stands, and a state that comes is waited for: no test reads a page that may still change."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from screenshots import settle
from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException, TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
PATIENCE = 60  # seconds that a busy machine may take; what comes sooner is seen sooner
GONE = (NoSuchElementException, StaleElementReferenceException)  # the page is being drawn anew


def show(driver: webdriver.Chrome, url: str) -> None:
    """Load a page anew, also where its address differs from the last one's in the hash alone, until it stands."""
    driver.get("about:blank")
    driver.get(url)
    settle(driver)


def until(driver: webdriver.Chrome, read: Callable[[webdriver.Chrome], T], patience: float = PATIENCE) -> T:
    """Wait until there is something to read, and return it.

    Raises:
        TimeoutException: What was read is empty or False to the end.
    """
    return WebDriverWait(driver, patience, 0.05, GONE).until(read)


def see(driver: webdriver.Chrome, read: Callable[[webdriver.Chrome], T], wanted: T) -> None:
    """Wait until this is read; if it never is, fail with the difference and the page's address."""
    with suppress(TimeoutException):
        until(driver, lambda d: read(d) == wanted)
    assert read(driver) == wanted, driver.current_url

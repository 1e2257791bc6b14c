"""Tests that make network namespaces."""

from lab_fixtures import *  # noqa: F403 -- fixtures are known to pytest by their names here

"""Tests that kill, cut and starve runs, with the fixtures of those that make network namespaces."""

from lab_fixtures import *  # noqa: F403 -- fixtures are known to pytest by their names here

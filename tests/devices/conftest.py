"""Tests of devices that are programs of others, with the fixtures of those that make network namespaces."""

from lab_fixtures import *  # noqa: F403 -- fixtures are known to pytest by their names here

"""Input files of users: testbed, experiment and campaign, checked completely before any host is touched."""

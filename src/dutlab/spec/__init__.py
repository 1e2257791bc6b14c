"""Files of users: testbed and experiment, checked whole before anything is touched."""

"""Sensors: each is started before a trial and stopped after it (sensor.py), by kind (spec/sensors.py)."""

"""What is watched while a trial runs: sensors, each started before it and stopped after it (sensor.py), by kind (spec/sensors.py)."""

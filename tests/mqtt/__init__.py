"""Tests of the MQTT state machines."""

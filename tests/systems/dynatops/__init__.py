"""Tests of DYNATOPS."""

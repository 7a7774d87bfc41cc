"""Whole brokers, their disks, their clients and everything that can go wrong between them, in virtual time.

chance     numbers from a seed and a name, so that taking one thing away leaves the others as they were
scenario   what happens, as plain data               drawing    a scenario from a seed
streams    ordered bytes that are late, stall, or break after any prefix
disk       what was written, what is safe; killed, cut off, slow, full, gone
people     MQTT clients with a will of their own     record     what they saw
site       one broker and the machine it runs on     world      all of it, one event after the other
judge      what was promised, asked of people, disks and scenario; never of a broker
torture    one seed, many seeds                      shrinking  the smallest scenario that still fails
"""

"""Tamara: topics with similar subscribers share a channel, and channels find out by themselves which (SIGMOD 2007).

Milo, Zur and Verbin add topic-clusters, virtual topics with filters at the subscriber, to any topic-based system, and
change them by local updates that are tested by cost first. `adaptive` is that system over Scribe, `bulk` the same
algorithm on arrays, `planned` and `planner` what a central planner makes of the idea. Left out: splitting a cluster
other than topic by topic (the paper leaves it out, too), and different maintenance intervals per topic.
"""

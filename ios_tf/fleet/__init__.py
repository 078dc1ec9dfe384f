"""Fleets: the devices of several machines measure the latencies of one search.

The driver, which searches, sends tasks to the dispatcher. The dispatcher gives each
task to one device, checks the devices and sends the answers back. On a cluster, the
dispatcher and the devices are Ray actors (`ray_fleet`). The other modules do not need
Ray.
"""

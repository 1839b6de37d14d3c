"""What a path names, seen from the broker.

path_lookup   resolves a caller's path to descriptors that cannot be swapped underneath
path_zones    whether a path is outside, in the ledger's folder, in git's, or in a checkout
path_kinds    whether a path needs a lease, is ignored, or controls something
mounts        other mounts of the same folder
"""

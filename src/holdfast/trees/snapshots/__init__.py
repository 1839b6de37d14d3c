"""Snapshots: taken, published, found, compared, restored, kept and collected.

taking               takes a snapshot: complete or absent, and never by a stale holder
publishing           the last steps: seals a snapshot under hidden names, then reveals it
descriptors          what is recorded about a snapshot, with a checksum; the READY mark
references           which snapshot a text names
tags                 names that people give to snapshots
snapshot_diff        what differs between two snapshots
restoring            into a new worktree, or in place
verification         every byte of a snapshot against its record
retention            which snapshots are still needed
garbage_collection   removes the others: first a plan, then the plan is run
"""

"""How a proof is written on disk, and in whose dialect.

dialect        which dialect a folder uses, if it is a proof
seed_dialect   `event-000001.json`, `lock_acquired`, a timeout as text
af_dialect     `000001.json`, `nodes_claimed`, a timeout in nanoseconds
proof_codec    shared by both: file names, events, the ledger's lock, claim files, times
"""

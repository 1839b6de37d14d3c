"""How a proof is written on disk, and in whose dialect.

dialect        whose proof a folder is
seed_dialect   `event-000001.json`, `lock_acquired`, a timeout in words
af_dialect     `000001.json`, `nodes_claimed`, a timeout in nanoseconds
proof_codec    what both share: file names, events, the ledger's lock, claim files, times
"""

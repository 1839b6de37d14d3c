"""What is wrong with a proof, and what can be repaired.

proof_audit     checks every event, the hash chain and the claims
audit_finding   one problem, and how bad it is
unknown_files   files in a proof's folders that Holdfast does not know
proof_repair    what can be repaired without loss, and what a person must decide
"""

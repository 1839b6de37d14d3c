"""Histories: what many processes asked of one ledger and were told, and a check of them.

    recorder    writes each call down before it is made and when it has answered; reads it back
    operation   one call, and a history of them
    model       what each call may answer when calls come one after the other
    windows     between which moments a call took effect, by tokens and fenced sections
    components  which calls can have to do with each other
    search      looks for a legal order
    judging     the verdict: legal, illegal, or undecided
    shrinking   the few calls that make a history illegal
    checker     all of it in one call

    journal = Journal(folder, "worker")                   # in each process
    recorder = Recorder(LockManager.open(root), journal, "someone")
    ...
    judgement = check(read(folder))                       # when all have ended
    assert judgement, str(judgement)

The model shares no code with the rulebook; only the recorder imports the rest of the package. What
this does not show: that waiters are served in order, that refusals name the right holders, and how
long anything takes. The simulator and the fights do.
"""

from __future__ import annotations

from histories.checker import BUDGET, check
from histories.judging import Judgement
from histories.operation import Death, History, Operation
from histories.recorder import Journal, Recorder, note_death, read

__all__ = [
    "BUDGET",
    "Death",
    "History",
    "Journal",
    "Judgement",
    "Operation",
    "Recorder",
    "check",
    "note_death",
    "read",
]

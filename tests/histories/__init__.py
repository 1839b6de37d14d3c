"""Histories: the recorded calls of many processes to one ledger, and a check of them.

    recorder    logs each call before it is made and when it has answered; reads the log back
    operation   one call, and a history of calls
    model       the right answers when calls come one after the other
    windows     the interval in which a call took effect, from tokens and fenced sections
    components  the calls that can affect each other
    search      searches for a legal order
    judging     the judgement: legal, illegal, or undecided
    shrinking   the few calls that make a history illegal
    checker     the whole check in one call

    journal = Journal(folder, "worker")                   # in each process
    recorder = Recorder(LockManager.open(root), journal, "someone")
    ...
    judgement = check(read(folder))                       # when all have ended
    assert judgement, str(judgement)

The model shares no code with the rulebook; only the recorder imports the rest of the package. The
check does not show that waiters are served in order, that refusals name the right holders, or how
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

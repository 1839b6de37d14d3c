"""A record of which agent has which file, independent of any ledger.

It follows what agents did and were told, and judges each answer of the gate: was a refusal right,
and should a permitted call have been refused?
"""

from __future__ import annotations

import time
from collections.abc import Iterable

#: The least time for which a file that was handed over is kept for its agent, used or not.
UNUSED_SECONDS = 2.0


class Claim:
    """An agent changes a file, or is in line for it (`weak`: the gate may refuse it to others, but
    need not). The claim ends some time between two moments."""

    def __init__(self, who: str, since: float, *, weak: bool) -> None:
        self.who, self.since, self.weak = who, since, weak
        self.written = False
        self.ends_early = self.ends = float("inf")

    def __repr__(self) -> str:
        how = "weak" if self.weak else "written" if self.written else "asked"
        return f"{self.who} ({how}, {self.since:.3f} to {self.ends_early:.3f}/{self.ends:.3f})"


class Record:
    """Which agent has changed which file since when, as far as the agents themselves know."""

    def __init__(self, idle_seconds: float) -> None:
        self.idle_seconds = idle_seconds
        self.claims: dict[str, list[Claim]] = {}
        self.lines: dict[str, str] = {}
        self.wrong: list[str] = []

    def now(self) -> float:
        return time.monotonic()

    def _open(self, path: str) -> list[Claim]:
        now = self.now()
        return [one for one in self.claims.get(path, ()) if one.ends > now]

    def claim(self, path: str, who: str, *, weak: bool = False) -> Claim:
        for one in self._open(path):
            if one.who == who and one.weak == weak and one.ends == float("inf"):
                return one
        made = Claim(who, self.now(), weak=weak)
        self.claims.setdefault(path, []).append(made)
        return made

    def wrote(self, path: str, who: str, line: str) -> None:
        self.claim(path, who).written = True
        self.lines[line] = f"{who} in {path}"

    def end(
        self, who: str, paths: Iterable[str] | None = None, *, weak: bool | None = None
    ) -> None:
        """Free the files that the agent had of these."""
        for path in list(self.claims) if paths is None else paths:
            for one in self._open(path):
                if one.who == who and weak in (None, one.weak):
                    one.ends_early = one.ends = self.now()

    def move(self, paths: Iterable[str], who: str, to: str) -> None:
        for path in paths:
            for one in self._open(path):
                if one.who == who and not one.weak:
                    one.ends_early = one.ends = self.now()
                    self.claim(path, to).written = one.written

    def rest(self, who: str, begun: float) -> None:
        """An agent stopped, between that moment and now."""
        for path, some in self.claims.items():
            for one in self._open(path):
                if one.who == who and one in some:
                    one.weak = one.weak or not one.written
                    one.ends_early = begun + self.idle_seconds
                    one.ends = self.now() + self.idle_seconds + 0.05

    def loosen(self, who: str) -> None:
        """An agent is about to stop: files that it has not changed may be free from now on."""
        for path in self.claims:
            for one in self._open(path):
                if one.who == who:
                    one.weak = one.weak or not one.written

    def wake(self, who: str) -> None:
        """The agent is at work again since some time before now."""
        for path in self.claims:
            for one in self._open(path):
                if one.who == who:
                    one.weak = one.weak or one.ends_early < self.now()
                    one.ends_early = one.ends = float("inf")

    def lapse(self, who: str, paths: Iterable[str]) -> None:
        """An agent no longer waits for these; it may keep the ones that it got for a while."""
        for path in paths:
            for one in self._open(path):
                if one.who == who and one.weak:
                    one.ends_early = self.now()
                    one.ends = self.now() + max(self.idle_seconds, UNUSED_SECONDS) + 0.05

    def crash(self, who: str) -> None:
        """An agent dies and comes back immediately: another one in line may have been quicker."""
        for path in self.claims:
            for one in self._open(path):
                if one.who == who and not self.is_free(path, who):
                    one.weak = True

    def mine(self, who: str) -> list[str]:
        """The files that the agent has changed and not yet committed."""
        return sorted(
            path for path in self.claims
            if any(one.who == who and not one.weak for one in self._open(path))
        )  # fmt: skip

    def is_free(self, path: str, who: str) -> bool:
        """Whether no other agent has a claim on the file."""
        return all(one.who == who for one in self._open(path))

    def taken(self, who: str) -> list[str]:
        """The files that others have certainly changed, and will keep for a while."""
        soon = self.now() + 0.3
        return sorted(
            path for path in self.claims
            if any(
                one.who.partition("/")[0] != who and one.written and not one.weak
                and one.ends_early > soon
                for one in self._open(path)
            )
        )  # fmt: skip

    def judge(
        self, who: str, paths: Iterable[str], begun: float, refused: str, *, family: bool = False
    ) -> None:
        """Judge an answer of the gate to a request that was made at a given moment and answered by
        now."""
        now = self.now()
        others = [
            (path, one)
            for path in paths
            for one in self.claims.get(path, ())
            if one.ends > begun and one.who != who
            and not (family and one.who.partition("/")[0] == who.partition("/")[0])
        ]  # fmt: skip
        if refused and not others:
            self.wrong.append(f"{begun:.3f} {who} was refused {sorted(paths)} wrongly: {refused}")
        missed = [
            (path, one) for path, one in others
            if not one.weak and one.since < begun and one.ends_early > now
        ]  # fmt: skip
        if not refused and missed:
            self.wrong.append(f"{begun:.3f} {who} was not refused {sorted(paths)}: {missed}")
        assert not self.wrong, "\n".join(self.wrong)

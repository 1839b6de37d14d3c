"""One queue of messages, and one thread at a time that handles them.

While the loop runs, that thread is the loop's. Before it is started and after it has ended, the
thread that sends a message handles it in the same call, so that a question is answered at any time.
The seat is the right to handle messages; only the loop ever waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from holdfast.work.engine.loop_messages import Ask, Message

T = TypeVar("T")


class Mailbox:
    """Messages for one handler."""

    def __init__(self, handle: Callable[[Message], None]) -> None:
        self._handle = handle
        self._messages: SimpleQueue[Message] = SimpleQueue()
        self._seat = threading.Lock()
        self._seated = 0

    def send(self, message: Message) -> None:
        """Have a message handled, by the loop or in this call."""
        self._messages.put(message)
        self._handle_unless_seated()

    @property
    def has_mail(self) -> bool:
        """Whether messages wait."""
        return not self._messages.empty()

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to a question, given by the thread that handles messages, after every message
        that was sent before."""
        if self._seated == threading.get_ident():
            return question()
        answered = threading.Event()
        found: list[tuple[Any, BaseException | None]] = []

        def answer(result: Any, error: BaseException | None) -> None:
            found.append((result, error))
            answered.set()

        self.send(Ask(question, answer))
        answered.wait()
        result, error = found[0]
        if error is not None:
            raise error
        made: T = result
        return made

    @contextmanager
    def seat(self) -> Iterator[None]:
        """While this lasts, this thread handles all messages, by `take`. Messages that are left at
        the end are handled then."""
        with self._seat:
            self._seated = threading.get_ident()
            try:
                yield
            finally:
                self._seated = 0
        self._handle_unless_seated()

    def take(self, seconds: float | None) -> None:
        """Wait for messages, for a given time or without limit, and handle all of them."""
        try:
            message = self._messages.get(timeout=seconds) if seconds != 0 else self._now()
            while True:
                self._handle_one(message)
                message = self._now()
        except Empty:
            return

    def _now(self) -> Message:
        return self._messages.get_nowait()

    def _handle_unless_seated(self) -> None:
        # Checked again after the seat is free: a sender that could not take the seat has left its
        # message to us.
        trouble: BaseException | None = None
        while self.has_mail:
            if not self._seat.acquire(blocking=False):
                break
            self._seated = threading.get_ident()
            try:
                self.take(0)
            except BaseException as error:  # the messages of other senders are handled nevertheless
                trouble = trouble or error
            finally:
                self._seated = 0
                self._seat.release()
        if trouble is not None:
            raise trouble

    def _handle_one(self, message: Message) -> None:
        if not isinstance(message, Ask):
            self._handle(message)
            return
        try:
            result = message.question()
        except BaseException as error:
            message.answer(None, error)
        else:
            message.answer(result, None)

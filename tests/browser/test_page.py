"""The page in a real Chromium: its views, its updates, and its use by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.chromium import Chromium, found
from browser.scenes import analysed, crowd, workshop
from helpers_agents import Agent, blocked
from helpers_postgres import own_server
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.server.server import Server
from holdfast.work.engine import scheduler
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.scheduler import Here
from holdfast.work.engine.work_items import LockRequest, WorkItem
from holdfast.work.launching.run_folders import Run
from holdfast.work.screens.workflow_records import Flows

pytestmark = pytest.mark.skipif(
    not found(), reason="needs Chromium (Debian and Ubuntu: the package chromium)"
)

WIDE = (1380, 860)
PHONE = (390, 844)
READY = "document.body.dataset.ready === 'yes'"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workshop(tmp_path / "shop")


@pytest.fixture
def manager(root: Path) -> Iterator[LockManager]:
    with LockManager.open(str(root)) as made:
        yield made


@pytest.fixture
def site(root: Path) -> Iterator[Server]:
    with LockManager.open(str(root)) as own, Server(own, port=0) as made:
        yield made


def visit(browser: Chromium, site: Server, tab: str = "files") -> None:
    """Open the page at a view, on a wide screen with a light colour scheme."""
    browser.size(*WIDE)
    browser.scheme("light")
    browser.open("about:blank")
    browser.open(f"{site.url}#{tab}")
    browser.until(READY, "the page shows something")


def text(browser: Chromium, selector: str) -> str:
    return str(browser.value(f"document.querySelector({selector!r})?.innerText ?? ''"))


def shows(browser: Chromium, selector: str, *words: str) -> None:
    """Wait until an element contains all these words."""
    script = f"(document.querySelector({selector!r})?.innerText ?? '').replace(/\\s+/g, ' ')"
    wanted = json.dumps(words)
    browser.until(f"{wanted}.every((one) => {script}.includes(one))", f"{selector} shows {words}")


def sent_out(manager: LockManager, workflow: str, writes: list[str]) -> WorkItem:
    desk = ItemStore(manager)
    item = desk.enqueue(workflow, "apply", LockRequest.of([], writes), {"group": workflow})
    assert item is not None
    claimed = desk.claim(item, Here().holder(item))
    assert isinstance(claimed, tuple)
    return claimed[0]


def queued(manager: LockManager, workflow: str, writes: list[str]) -> WorkItem:
    item = ItemStore(manager).enqueue(workflow, "apply", LockRequest.of([], writes))
    assert item is not None
    return item


def test_it_shows_held_files_and_their_holders_as_a_tree(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    sent_out(manager, "blog/posts", ["app/models/user.rb", "lib/x.rb"])
    manager.try_acquire(holder="ann", read_paths=["app/models/"])
    manager.try_acquire(holder="ann", read_paths=["app/views/"], reason="a look")
    visit(browser, site)
    shows(browser, "#list-files", "user.rb", "blog/posts", "x.rb", "views/", "ann")
    names = browser.value(
        "[...document.querySelectorAll('#list-files .path')].map((e) => e.innerText)"
    )
    assert names == ["app", "models", "user.rb", "views/", "lib", "x.rb"]
    levels = "[...document.querySelectorAll('#list-files [role=treeitem]')].map((e) => e.ariaLevel)"
    assert browser.value(levels) == ["1", "2", "3", "2", "1", "2"]
    assert browser.complaints() == []


def test_the_queue_says_why_each_request_waits_and_for_which_holder(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    sent_out(manager, "blog/posts", ["app/shared.rb"])
    queued(manager, "blog/tags", ["app/shared.rb"])
    queued(manager, "blog/users", ["lib/free.rb"])
    transactions.queue(manager, manager.request("ben", (), ["app/shared.rb"]))
    visit(browser, site)
    shows(browser, "#list-queue .waiting", "blog/tags", "blog/posts writes app/shared.rb")
    shows(browser, "#list-queue", "blog/users", "waits for a free slot")
    shows(browser, "#list-queue .ticket", "ben", "blog/posts writes app/shared.rb")
    shows(browser, "#list-files .waits", "2 waiting")


def test_it_follows_the_ledger_without_a_reload(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    visit(browser, site)
    shows(browser, "#list-files", "Nothing is held.")
    item = sent_out(manager, "blog/posts", ["app/shared.rb"])
    shows(browser, "#list-files", "shared.rb", "blog/posts")
    shows(browser, "#list-queue .active", "blog/posts")
    waiting = queued(manager, "blog/tags", ["app/shared.rb"])
    shows(browser, "#list-queue .waiting", "blog/tags", "blog/posts writes app/shared.rb")
    ItemStore(manager).end(item)
    browser.until("!document.querySelector('#list-queue .active')", "it is over")
    shows(browser, "#figures", "0 held", "1 waiting", "1 done")
    claimed = ItemStore(manager).claim(waiting, Here().holder(waiting))
    assert isinstance(claimed, tuple)
    shows(browser, "#list-queue .active", "blog/tags")


def test_a_page_requests_nothing_while_nothing_happens(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    manager.try_acquire(holder="ann", write_paths=["app/x.rb"])
    visit(browser, site)
    shows(browser, "#link", "live")
    browser.value("new Promise((done) => setTimeout(done, 2500))")
    asked = "performance.getEntriesByType('resource').length"
    before = browser.value(asked)
    browser.value("new Promise((done) => setTimeout(done, 1500))")
    assert browser.value(asked) == before


def test_it_catches_up_after_the_connection_was_lost(
    browser: Chromium, root: Path, manager: LockManager
) -> None:
    with LockManager.open(str(root)) as own, Server(own, port=0) as first:
        visit(browser, first)
        shows(browser, "#link", "live")
        port = first.port
    shows(browser, "#link", "not connected")
    sent_out(manager, "blog/posts", ["app/shared.rb"])
    with LockManager.open(str(root)) as own, Server(own, port=port):
        shows(browser, "#list-files", "shared.rb", "blog/posts")
        shows(browser, "#link", "live")


def test_a_page_that_was_left_gives_its_connection_back(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    for _ in range(9):  # a browser allows six connections to one server
        visit(browser, site)
    sent_out(manager, "blog/posts", ["app/shared.rb"])
    shows(browser, "#list-files", "shared.rb")


def test_the_button_decides(
    browser: Chromium, site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    visit(browser, site)
    shows(browser, "#banners", "2 controllers are waiting for a decision.")
    browser.click("#banners button")
    shows(browser, "#list-controllers", "blog/posts", "awaiting decisions", "2 of 2 screens")
    browser.click("#list-controllers .approve")
    shows(browser, "#list-controllers", "queued")
    shows(browser, "#count-controllers", "1")
    assert Flows(manager).get("blog/posts").state == "queued"
    assert [item.workflow for item in ItemStore(manager).items() if item.phase == "apply"] == [
        "blog/posts"
    ]
    browser.click("#list-controllers .reject")
    shows(browser, "#list-controllers", "idle", "rejected by")
    assert Flows(manager).get("blog/comments").state == "idle"


def test_without_the_secret_the_page_is_read_only(
    browser: Chromium, site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    browser.size(*WIDE)
    browser.open("about:blank")
    browser.open(f"{site.url.partition('#')[0]}#controllers")
    browser.until(READY, "the page shows something")
    shows(browser, "#list-controllers", "blog/posts", "awaiting decisions")
    shows(browser, "#banners", "2 controllers are waiting for a decision.", "read only")
    assert browser.value("document.querySelectorAll('.buttons button').length") == 0
    visit(browser, site, "controllers")
    shows(browser, "#list-controllers", "awaiting decisions")
    browser.until("document.querySelectorAll('.approve').length === 2", "who has it may decide")
    assert "secret" not in str(browser.value("location.href"))


def test_a_refused_order_is_reported(
    browser: Chromium, site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    visit(browser, site, "controllers")
    shows(browser, "#list-controllers", "awaiting decisions")
    browser.value(
        "(window.realFetch = fetch, window.fetch = (path, more) =>"
        " realFetch(path.replace('/decide/blog', '/decide/other'), more), 0)"
    )
    browser.click("#list-controllers .approve")
    shows(browser, "#toast", "there is no controller")


def test_the_output_of_an_agent_is_shown_as_it_is_printed(
    browser: Chromium, site: Server, manager: LockManager, root: Path
) -> None:
    item = sent_out(manager, "blog/posts", ["app/shared.rb"])
    log = Path(Run(str(root), item.id).log("apply"))
    log.parent.mkdir(parents=True)
    log.write_text("\x1b[32mfirst\x1b[0m line\n")
    visit(browser, site)
    browser.click("#list-queue .active")
    shows(browser, "#detail", "blog/posts", "app/shared.rb")
    shows(browser, "#detail .output", "first line")
    with log.open("a") as file:
        file.write("second <b>line</b>\n")
    shows(browser, "#detail .output", "second <b>line</b>")
    assert browser.value("document.querySelector('#detail .output b')") is None


def test_a_timeline_per_file_and_per_agent(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    for holder in ("ann", "ben"):
        grant = manager.try_acquire(holder=holder, write_paths=["app/x.rb"])
        assert grant is not None
        manager.release(grant.id)
    sent_out(manager, "blog/posts", ["app/shared.rb"])
    visit(browser, site, "timeline")
    shows(browser, "#list-timeline", "app/x.rb", "app/shared.rb")
    label = browser.value("document.querySelector('#list-timeline .track').ariaLabel")
    assert label.startswith("app/x.rb: held 2 times by 2")
    drawn = (
        "(() => { const c = document.querySelector('#list-timeline canvas');"
        " const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " return pixels.some((v) => v > 0) })()"
    )
    assert browser.value(drawn)
    browser.value(
        "(document.querySelector('#timeline-by').value = 'agent',"
        " document.querySelector('#timeline-by').dispatchEvent(new Event('change')))"
    )
    shows(browser, "#list-timeline", "ann", "ben", "blog/posts")


def test_contention_gaps_and_trouble(browser: Chromium, site: Server, manager: LockManager) -> None:
    for name in ("list", "show"):
        request = LockRequest.of([f"app/{name}.rb"], ())
        ItemStore(manager).enqueue(
            f"blog/posts/{name}", "analyze", request, {"group": "blog/posts"}
        )
    item = sent_out(manager, "blog/posts", ["app/shared.rb"])
    queued(manager, "blog/tags", ["app/shared.rb"])
    visit(browser, site, "contention")
    shows(browser, "#list-contention", "app/shared.rb", "1 waiting", "1 grant")
    gap = {"grant": item.grant_id, "path": "lib/z.rb", "why": "not covered", "client": "claude"}
    transactions.note(manager, "coverage_gap", gap)
    transactions.note(manager, scheduler.BROKEN, {"error": "it fell"}, name=scheduler.TROUBLE)
    shows(browser, "#banners", "The scheduler failed: it fell")
    browser.press("5")
    shows(browser, "#list-trouble", "blog/posts", "lib/z.rb", "not covered", "it fell")
    visit(browser, site, "trouble")
    shows(browser, "#list-trouble", "lib/z.rb", "not covered · missed by list, show")


def test_how_agents_stand_towards_files(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    ann, ben = Agent(manager, "ann"), Agent(manager, "ben")
    ann.edit("app/x.rb")
    ben.edit("app/y.rb")
    visit(browser, site)
    shows(browser, "#list-files", "x.rb", ann.name, "y.rb", ben.name)
    ann.edit("app/y.rb")
    shows(browser, "#list-queue .ticket", ann.name, f"{ben.name} has app/y.rb")
    shows(browser, "#list-queue .ticket", "retry pending, due in 2 min 5")
    ben.edit("app/x.rb")
    shows(browser, "#list-queue .stray", ben.name, f"{ann.name} has app/x.rb")
    shows(browser, "#list-queue .stray", "retry pending, in a circle, due in 2 min 5")
    shows(browser, "#figures", "2 held", "2 waiting")
    shows(browser, "#list-files .waits", "1 waiting")
    browser.value("document.querySelector('#list-queue .stray').click()")
    shows(browser, "#detail", "app/x.rb", "owned", "retry pending, in a circle, due in 2 min")
    ben.gate.fail()
    shows(browser, "#list-files .stands", "owned, handed over, unused, free in ")
    assert browser.complaints() == []


def test_blocked_agents_are_distinguished_by_their_keys(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    visit(browser, site, "trouble")
    shows(browser, "#list-trouble", "no blocked agents")
    ann = Agent(manager, "ann")
    ann.edit("app/x.rb", "app/y.rb")
    agents = [blocked(manager, "eve", "app/x.rb"), blocked(manager, "bob", "app/y.rb")]
    for agent in agents:
        shows(browser, "#list-trouble", agent.name, "blocked, waits for its user", ann.name)
    assert browser.value("document.querySelectorAll('#list-trouble .blocked').length") == 2
    agents[0].gate.prompt()
    browser.until("document.querySelectorAll('#list-trouble .blocked').length === 1", "one goes on")
    shows(browser, "#list-trouble .blocked", agents[1].name, "app/y.rb")


def test_a_keyboard_is_enough(browser: Chromium, site: Server, manager: LockManager) -> None:
    sent_out(manager, "blog/posts", ["app/models/user.rb", "lib/x.rb"])
    visit(browser, site)
    shows(browser, "#list-files", "user.rb")
    for number, name in enumerate(("files", "queue", "timeline", "contention", "trouble"), 1):
        browser.press(str(number))
        assert browser.value("document.body.dataset.tab") == name
        assert browser.value("document.activeElement.id") == f"list-{name}"
        assert browser.value(f"document.querySelector('#tab-{name}').ariaSelected") == "true"
    browser.press("1", "Home")
    shows(browser, "#list-files .at", "app/models")
    browser.press("ArrowLeft")
    browser.until("!document.querySelector('#list-files').innerText.includes('user.rb')", "folded")
    browser.press("ArrowRight", "j")
    shows(browser, "#list-files .at", "user.rb")
    active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    assert "user.rb" in browser.value(f"{active}.innerText")
    browser.press("Enter")
    shows(browser, "#detail", "app/models/user.rb", "blog/posts", "writing for")
    browser.press("Escape")
    browser.until("document.querySelector('#detail').hidden", "it is closed")
    browser.press("/", "l", "i", "b")
    browser.until(
        "!document.querySelector('#list-files').innerText.includes('user.rb')", "filtered"
    )
    shows(browser, "#list-files", "x.rb")
    browser.press("Escape", "?")
    browser.until("document.querySelector('#keys').open", "the keys are shown")


def test_it_is_dark_if_the_person_prefers_dark(browser: Chromium, site: Server) -> None:
    visit(browser, site)
    light = browser.value("getComputedStyle(document.body).backgroundColor")
    browser.scheme("dark")
    dark = browser.value("getComputedStyle(document.body).backgroundColor")
    assert sum(_rgb(light)) > 700
    assert sum(_rgb(dark)) < 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser: Chromium, site: Server, scheme: str) -> None:
    visit(browser, site)
    browser.scheme(scheme)
    pairs = [("--ink", "--paper"), ("--soft", "--paper"), ("--soft", "--sheet"),
             ("--soft", "--hover"), ("--accent", "--sheet"), ("--accent", "--tint"),
             ("--on-accent", "--accent"),
             ("--amber", "--amber-tint"), ("--red", "--red-tint"), ("--green", "--green-tint"),
             ("--blue", "--blue-tint")]  # fmt: skip
    for front, back in pairs:
        colours = [
            browser.value(
                f"(document.body.style.color = 'var({name})',"
                " getComputedStyle(document.body).color)"
            )
            for name in (front, back)
        ]
        assert _contrast(*colours) >= 4.5, (scheme, front, back)


def _rgb(text: str) -> list[float]:
    return [float(one) for one in text[text.index("(") + 1 : -1].split(",")[:3]]


def _contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as in the Web Content Accessibility Guidelines."""

    def light(colour: str) -> float:
        parts = [value / 255 for value in _rgb(colour)]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    first, second = sorted((light(one), light(other)))
    return (second + 0.05) / (first + 0.05)


def test_it_fits_a_phone(browser: Chromium, site: Server, manager: LockManager, root: Path) -> None:
    analysed(manager, root)
    sent_out(manager, "blog/posts", ["app/controllers/concerns/authentication.rb"])
    visit(browser, site)
    browser.size(*PHONE, phone=True)
    for tab in ("files", "queue", "controllers", "timeline", "contention", "trouble"):
        browser.click(f"#tab-{tab}")
        browser.until(f"document.querySelector('#{tab}').offsetWidth === {PHONE[0]}", f"{tab} fits")
        shown = "[...document.querySelectorAll('section')].filter((e) => e.offsetWidth)"
        assert browser.value(f"{shown}.map((e) => e.id)") == [tab]
        assert browser.value("document.documentElement.scrollWidth") == PHONE[0]
    browser.click("#tab-queue")
    browser.click("#list-queue .active")
    browser.until(
        f"document.querySelector('#detail').offsetWidth === {PHONE[0]}", "the whole screen"
    )
    browser.click("#detail .close")
    browser.until("document.querySelector('#detail').hidden", "it is closed")


def test_a_thousand_items_and_ten_thousand_events_are_shown_at_once(
    browser: Chromium, tmp_path: Path
) -> None:
    with (
        crowd(tmp_path / "crowd", items=1000, events=10_000) as manager,
        LockManager.open(str(tmp_path / "crowd")) as own,
        Server(own, port=0) as made,
    ):
        visit(browser, made)
        shows(browser, "#list-queue", "992", "module0/things0")
        rows = browser.value("document.querySelectorAll('#list-queue .line').length")
        assert rows < 60
        browser.press("2", "End")
        browser.until(
            "[...document.querySelectorAll('#list-queue .line')]"
            ".some((e) => e.ariaPosInSet === '1002')",
            "the last is seen",
        )
        shows(browser, "#list-queue .at", "writes")
        browser.press("3")
        shows(browser, "#list-timeline", "lib/part0/file0.rb")
        assert browser.value("document.querySelectorAll('#list-timeline .line').length") < 60
        for number in range(300):
            grant = manager.try_acquire(holder="zoe", write_paths=[f"new/{number}.rb"])
            assert grant is not None
        browser.press("1")
        shows(browser, "#figures", "308 held")
        assert browser.value("document.querySelectorAll('#list-files .line').length") < 60
        assert browser.complaints() == []


def test_the_text_of_agents_is_never_parsed_as_html(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    evil = "<img src=x onerror=window.hit=1>"
    manager.try_acquire(holder=evil, write_paths=[f"app/{evil}.rb"], reason=evil)
    queued(manager, evil, [f"app/{evil}.rb"])
    visit(browser, site)
    shows(browser, "#list-files", evil)
    for key in ("2", "3", "4", "5", "6", "1"):
        browser.press(key)
    browser.press("2", "Home", "Enter")
    shows(browser, "#detail", evil)
    assert browser.value("window.hit") is None
    assert browser.value("document.querySelectorAll('main img').length") == 0


def test_no_control_of_the_page_touches_a_lock(
    browser: Chromium, site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    sent_out(manager, "blog/posts", ["app/shared.rb"])
    visit(browser, site)
    words: set[str] = set()
    for key in ("1", "2", "3", "4", "5", "6"):
        browser.press(key)
        words |= set(
            browser.value("[...document.querySelectorAll('main button')].map((e) => e.innerText)")
        )
    browser.press("2", "Home", "Enter")
    shows(browser, "#detail", "app/shared.rb")
    words |= set(browser.value("[...document.querySelectorAll('button')].map((e) => e.innerText)"))
    for word in words:
        assert not any(
            one in word.lower() for one in ("unlock", "release", "force", "steal", "override")
        )


def test_while_the_ledgers_server_is_away_the_page_says_so_and_then_goes_on(
    browser: Chromium, root: Path
) -> None:
    with (
        own_server() as server,
        LockManager.open(root, store=server.url("page")) as own,
        Server(own, port=0) as site,
    ):
        visit(browser, site)
        shows(browser, "#link", "live")
        server.stop()
        shows(browser, "#link", "not connected")
        # The browser asks for its stream again after AGAIN_MILLISECONDS, is refused, and gives up.
        browser.value("window.since = performance.now()")
        browser.until("performance.now() > window.since + 3000", "its stream was refused")
        server.start()
        own.acquire(holder="ann", write_paths=["app/late.rb"])
        shows(browser, "#link", "live")
        shows(browser, "body", "late.rb")

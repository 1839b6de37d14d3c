"""Lists of tasks on the page, in a real Chromium: on a wide screen and on a phone."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.chromium import Chromium, found
from browser.scenes import analysed, workshop
from browser.task_scenes import LIST, Scene, review
from browser.test_page import PHONE, READY, shows, text, visit
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import witness_of
from holdfast.server import ledger_feed
from holdfast.server.server import Server
from holdfast.server.visible_text import is_invisible, visible
from holdfast.work.tasks import review_decisions, task_states
from holdfast.work.tasks.lists.task import Task

pytestmark = pytest.mark.skipif(
    not found(), reason="needs Chromium (Debian and Ubuntu: the package chromium)"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as made:
        yield made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    (made / ".git").mkdir(parents=True)
    return made


@pytest.fixture
def manager(root: Path) -> Iterator[LockManager]:
    with LockManager.open(str(root)) as made:
        yield made


@pytest.fixture
def site(root: Path) -> Iterator[Server]:
    with LockManager.open(str(root)) as own, Server(own, port=0) as made:
        yield made


def tasks(*names: str, **terms: Any) -> list[Task]:
    return [Task(name, f"Do {name}.\nAll of it.", **terms) for name in names]


def figure(browser: Chromium, name: str) -> int:
    """The number on a tab."""
    return int(text(browser, f"#count-{name}") or 0)


def test_progress_time_and_forecast_are_shown(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a", "b", "c", "d"), slots=2, since_seconds=300)
    visit(browser, site, "")
    assert browser.value("document.body.dataset.tab") == "tasks", "where there are tasks, first"
    shows(browser, "#progress", "tasks.toml", "0 of 4 done", "5 min", "end not known")
    scene.end("a", seconds=60)
    scene.end("b", task_states.FAILED, reason="it broke")
    scene.send_out("c", "c.txt")
    shows(browser, "#progress", "1 of 4 done · 1 at work · 1 failed", "5 min · about", "left")
    bar = "document.querySelector('#progress [role=progressbar]')"
    assert browser.value(f"[{bar}.ariaValueNow, {bar}.ariaValueMax]") == ["1", "4"]
    shows(browser, "#list-tasks", "b failed", "it broke", "c working", "a done")
    shows(browser, "#phase", "working")
    assert browser.complaints() == []


def test_a_task_has_prompt_output_diff_and_commit(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("first", check="make test"))
    item = scene.send_out("first", "a.txt")
    scene.keep(
        item.id, task_log="it prints <b>this</b>\n", changes_patch="@@ -1 +1 @@\n-old\n+new\n"
    )
    scene.end("first", commit="0123456789abcdef", files=("a.txt",), tries=2)
    visit(browser, site, "tasks")
    browser.click("#list-tasks .task")
    shows(browser, "#detail", "first", "done", "make test", "0123456789ab", "Do first. All of it.")
    shows(browser, "#detail .output[aria-label=Output]", "it prints <b>this</b>")
    shows(browser, "#detail .diff", "-old", "+new")
    looks = "[...document.querySelectorAll('#detail .diff span')].map((e) => e.className)"
    assert browser.value(looks)[:3] == ["of-place", "removed", "added"]


def test_a_failure_is_shown_with_the_last_lines(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("first"))
    scene.end("first", task_states.FAILED, reason="the agent failed with code 3", tries=3,
              tail=("Traceback", "KeyError: 7"), log=".holdfast/runs/x/task.log")  # fmt: skip
    visit(browser, site, "trouble")
    shows(browser, "#list-trouble", "first", "the agent failed with code 3")
    browser.click("#list-trouble .error")
    shows(browser, "#detail", "the agent failed with code 3", "KeyError: 7", "runs/x/task.log")


def test_no_word_about_screens_is_shown_with_only_tasks(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a", "b", "c"), review=True)
    scene.send_out("a", "a.txt")
    scene.queue("b", "a.txt")
    review(scene, "c", "c.txt")
    visit(browser, site, "tasks")
    said = ""
    for key in "123456":
        browser.press(key)
        said += browser.value("document.body.innerText").lower()
    browser.press("1", "Home", "Enter")
    shows(browser, "#detail", "Approve")
    said += text(browser, "#detail").lower()
    for word in ("screen", "controller", "analy", "merg"):
        assert word not in said, word
    assert "waiting for a decision" in said


def test_waits_form_a_chain(browser: Chromium, site: Server, manager: LockManager) -> None:
    scene = Scene(manager, [*tasks("a", "b", "c"), Task("d", "d", after=("c",))])
    scene.send_out("a", "a.txt")
    scene.send_out("b", "b.txt")
    scene.wait_in_call("b", "a.txt")
    scene.queue("c", "b.txt")
    visit(browser, site, "tasks")
    chain = "waits for b (b.txt), which waits for a (a.txt)"
    shows(browser, "#list-tasks", "b working", "waits for a (a.txt)", f"c queued {chain}")
    shows(browser, "#list-tasks", f"d waiting waits for c , which {chain}")
    browser.press("3")
    shows(browser, "#list-queue .waiting", "c queued", chain)
    visit(browser, site, "tasks")
    browser.click("#list-tasks .queued")
    shows(browser, "#detail .steps", "c", "waits for b for b.txt", "waits for a for a.txt")


def test_a_person_approves_and_rejects_beside_the_diff(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("good", "bad"), review=True)
    review(scene, "good", "a.txt")
    review(scene, "bad", "b.txt")
    visit(browser, site, "files")
    shows(browser, "#banners", "2 tasks are waiting for a decision.")
    browser.click("#banners button")
    assert browser.value("document.querySelectorAll('#list-tasks .approve').length") == 0
    for name, verb in (("good", "approve"), ("bad", "reject")):
        rows = "[...document.querySelectorAll('#list-tasks .task')]"
        row = f"{rows}.find((e) => e.innerText.startsWith('{name}'))"
        browser.until(f"({row}.querySelector('.review').click(), true)", "it can be reviewed")
        shows(browser, "#detail", name, "+new line")
        browser.click(f"#detail .{verb}")
        until_decided(browser, manager, name)
        browser.press("Escape")
    for name, approve in (("good", True), ("bad", False)):
        made = decided(manager, name)
        assert made is not None
        assert made.approve is approve
    assert browser.complaints() == []


def decided(manager: LockManager, name: str) -> review_decisions.TaskDecision | None:
    return transactions.look(manager, lambda view: review_decisions.decision_in(view, LIST, name))


def until_decided(browser: Chromium, manager: LockManager, name: str) -> None:
    browser.until(f"!document.querySelector('#detail button:disabled') && '{name}'", "it was sent")
    for _ in range(200):
        if decided(manager, name) is not None:
            return
        browser.value("new Promise((done) => setTimeout(done, 20))")
    raise AssertionError(f"{name} was not decided: {text(browser, '#toast')}")


def test_a_page_without_the_secret_shows_the_diff_without_buttons(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("good"), review=True)
    review(scene, "good", "a.txt")
    browser.size(*PHONE, phone=True)
    browser.open("about:blank")
    browser.open(f"http://localhost:{site.port}/#tasks")
    browser.until(READY, "the page shows something")
    shows(browser, "#mode", "read only")
    browser.click("#list-tasks .review")
    shows(browser, "#detail", "This task is waiting for a decision.", "+new line")
    assert browser.value("document.querySelectorAll('.approve').length") == 0


def test_a_dead_dispatcher_is_shown_within_seconds_with_the_command(
    browser: Chromium, site: Server, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_feed, "PULSE_SECONDS", 0.5)
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )
    witness = witness_of(process.pid)
    scene = Scene(manager, tasks("a", "b"), by=witness, launcher=witness)
    scene.send_out("a", "a.txt")
    visit(browser, site, "tasks")
    shows(browser, "#progress", "1 at work")
    assert text(browser, "#banners") == ""
    process.kill()
    process.communicate()
    script = "document.querySelector('#banners').innerText"
    browser.until(f"{script}.includes('holdfast dispatch tasks.toml')", "it is said", seconds=6)
    shows(browser, "#banners", "is no longer running, and 2 tasks are left")
    shows(browser, "#phase", "stopped")
    shows(browser, "#progress", "1 cut off", "no dispatcher is running")
    shows(browser, "#list-tasks", "a cut off")
    assert browser.value("document.querySelector('#stop').hidden")


def test_counts_agree_wherever_they_are_shown(browser: Chromium, tmp_path: Path) -> None:
    shop = workshop(tmp_path / "mixed")
    with (
        LockManager.open(str(shop)) as manager,
        LockManager.open(str(shop)) as own,
        Server(own, port=0) as site,
    ):
        analysed(manager, shop)
        scene = Scene(manager, tasks("a", "b", "c", "d"))
        scene.end("a", task_states.FAILED, reason="no")
        scene.end("b")
        scene.send_out("c", "c.txt")
        scene.queue("d", "c.txt")
        visit(browser, site, "trouble")
        shows(browser, "#figures", "1 held", "1 waiting", "1 done", "1 failed")
        shows(browser, "#list-trouble", "Errors 1")
        assert figure(browser, "trouble") == 1
        assert browser.value("document.querySelectorAll('#list-trouble .error').length") == 1
        browser.click("#tab-queue")
        shows(browser, "#list-queue", "At work 1", "Waiting 1")
        assert figure(browser, "queue") == 2
        shows(browser, "#progress", "1 of 4 done · 1 at work · 1 failed")


def test_the_timeline_has_a_legend_and_a_line_for_now(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a", "b"))
    scene.send_out("a", "a.txt")
    visit(browser, site, "timeline")
    shows(browser, "#list-timeline", "a.txt")
    shows(browser, "#legend", "writes", "reads", "now", "a")
    red = browser.value(
        "(() => { const c = document.querySelector('#list-timeline canvas');"
        " const pen = c.getContext('2d'); const { data } = pen.getImageData(0, 2, c.width, 1);"
        " const at = []; for (let x = 0; x < c.width; x += 1) if (data[4 * x] > 130 &&"
        " data[4 * x + 1] < 90 && data[4 * x + 3] > 100) at.push(x / c.width); return at })()"
    )
    assert red, "a red line"
    assert 0.93 < red[0] < 0.99
    browser.value(
        "(document.querySelector('#timeline-by').value = 'agent',"
        " document.querySelector('#timeline-by').dispatchEvent(new Event('change')))"
    )
    shows(browser, "#legend", "a colour for each file")


def test_an_empty_repository_has_guidance(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    visit(browser, site)
    assert browser.value("document.querySelector('#tab-controllers').hidden")
    shows(browser, "#files", "There is nothing here yet.", "holdfast dispatch TODO.md",
          "holdfast init")  # fmt: skip
    assert manager.try_acquire(holder="ann", write_paths=["x.txt"]) is not None
    shows(browser, "#list-files", "x.txt")
    browser.until("!document.body.innerText.includes('There is nothing here yet.')", "it is gone")


def test_a_list_that_ended_with_failures_says_so(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a", "b"))
    scene.end("a", task_states.FAILED, reason="no")
    scene.end("b")
    visit(browser, site)
    shows(browser, "#phase", "finished, 1 failed")


def test_a_view_that_is_not_there_is_not_shown(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    Scene(manager, tasks("a"))
    visit(browser, site, "controllers")
    browser.until("document.body.dataset.tab === 'tasks'", "there are no controllers")


def test_stop_asks_before_it_stops(browser: Chromium, site: Server, manager: LockManager) -> None:
    scene = Scene(manager, tasks("a", "b"))
    scene.send_out("a", "a.txt")
    visit(browser, site, "tasks")
    asked = "work_stop_asked"
    browser.click("#stop")
    shows(browser, "#ask", "Stop this run?", "No new task will start; running tasks finish.",
          "To continue: holdfast dispatch tasks.toml", "Keep running")  # fmt: skip
    assert browser.value("document.activeElement.id") == "ask-no", "Enter does no harm"
    browser.click("#ask-no")
    browser.until("!document.querySelector('#ask').open", "no is no")
    assert asked not in [event.type for event in manager.events()]
    browser.click("#stop")
    browser.click("#ask-yes")
    for _ in range(200):
        if asked in [event.type for event in manager.events()]:
            return
        browser.value("new Promise((done) => setTimeout(done, 20))")
    raise AssertionError("it was not asked to stop")


def test_everything_is_reachable_on_a_phone(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    scene = Scene(manager, tasks("a task with a long name that goes on and on", "b", "c"))
    review(scene, "a task with a long name that goes on and on", "app/some/long/path/file.py")
    scene.send_out("b", "b.txt")
    scene.queue("c", "b.txt")
    visit(browser, site, "tasks")
    browser.size(*PHONE, phone=True)
    shows(browser, "#mode", "read and write")
    seen = (
        "(e) => { const r = e.getBoundingClientRect();"
        f" return r.width > 0 && r.left >= 0 && r.right <= {PHONE[0]} && r.bottom <= {PHONE[1]} }}"
    )
    for selector in ("nav button:not([hidden])", "#mode", "#stop", "#filter", "#figures"):
        every = f"[...document.querySelectorAll({selector!r})].every({seen})"
        assert browser.value(every), selector
    assert browser.value("document.querySelectorAll('nav button:not([hidden])').length") == 6
    for name in ("files", "queue", "timeline", "contention", "trouble", "tasks"):
        browser.click(f"#tab-{name}")
        assert browser.value("document.body.dataset.tab") == name
        assert browser.value("document.documentElement.scrollWidth") == PHONE[0]
        height = browser.value(f"document.querySelector('#list-{name}').clientHeight")
        assert height > 200, f"{name} has room for its rows"
    browser.click("#tab-files")
    modes = "[...document.querySelectorAll('#list-files .mode')].every((e) => e.offsetWidth > 0)"
    browser.until(modes, "whether it is read or written is seen")
    browser.click("#tab-tasks")
    browser.click("#list-tasks .review")
    shows(browser, "#detail", "Approve", "+new line")
    assert browser.value(f"[...document.querySelectorAll('#detail .decide button')].every({seen})")
    browser.click("#detail .close")


def test_the_folders_of_tools_do_not_flood_the_files(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    for number in range(30):
        assert manager.try_acquire(
            holder="ann", write_paths=[f".analysis/blog/{number}/findings.json"]
        )
    assert manager.try_acquire(holder="ann", write_paths=["app/x.rb"])
    visit(browser, site)
    shows(browser, "#list-files", "app", "x.rb", ".analysis/blog", "30 held")
    assert browser.value("document.querySelectorAll('#list-files .line').length") == 3
    browser.click("#list-files .folder:last-of-type")
    shows(browser, "#list-files", "findings.json")
    browser.click("#list-files .folder:nth-of-type(3)")
    browser.until("document.querySelectorAll('#list-files .line').length === 3", "closed again")


def test_invisible_characters_are_made_visible_everywhere(
    browser: Chromium, site: Server, manager: LockManager
) -> None:
    evil = "a\u202eb\u200bc\u2066d"
    scene = Scene(manager, [Task(evil, f"Do {evil}", after=()), *tasks("b")], review=True)
    item = review(scene, evil, f"{evil}.txt", patch=f"+{evil}\n")
    scene.keep(item.id, task_log=f"prints {evil}\x07 \x1b[32mgreen\x1b[0m\n")
    assert manager.try_acquire(holder="ann", write_paths=["x.txt"], reason=evil)
    scene.queue("b", "x.txt")
    scene.set("b", task_states.QUEUED, reason=f"once more: {evil}")
    visit(browser, site, "tasks")
    shows(browser, "#list-tasks", visible(evil))
    browser.click("#list-tasks .review")
    shows(browser, "#detail .diff", f"+{visible(evil)}")
    shows(browser, "#detail", f"Do {visible(evil)}", f"prints {visible(evil)}<U+0007> green")
    for key in "123456":
        browser.press(key)
        browser.value("new Promise((done) => setTimeout(done, 150))")
        everything = (
            "document.title + document.body.textContent"
            " + [...document.querySelectorAll('[title], [aria-label]')]"
            ".map((e) => (e.title || '') + (e.ariaLabel || '')).join('')"
        )
        said = str(browser.value(everything))
        left = {f"U+{ord(one):04X}" for one in said if is_invisible(one)}
        assert not left, (key, left)


def test_page_and_server_spell_out_the_same_characters(browser: Chromium, site: Server) -> None:
    visit(browser, site)
    assigned = [chr(code) for code in range(0x110000)
                if unicodedata.category(chr(code)) not in ("Cn", "Cs", "Co")]  # fmt: skip
    ours = [ord(one) for one in assigned if is_invisible(one)]
    theirs = browser.value(
        "import('/visible.js').then(({ visible }) => {"
        f" const found = []; for (const code of {json.dumps([ord(one) for one in assigned])}) {{"
        " const one = String.fromCodePoint(code);"
        " if (visible(one) !== one) found.push(code) } return found })"
    )
    assert theirs == ours
    for one in ("a\u202eb", "\u2764\ufe0f a\ufe0f", "x\u200b\ny\tz"):
        told = browser.value(
            f"import('/visible.js').then(({{ visible }}) => visible({json.dumps(one)}))"
        )
        assert told == visible(one)


def test_500_tasks_are_shown_at_once(browser: Chromium, site: Server, manager: LockManager) -> None:
    names = [f"task {number}" for number in range(500)]
    scene = Scene(manager, tasks(*names), slots=8)
    for name in names[:8]:
        scene.send_out(name, f"{name}.txt")
    for name in names[8:]:
        scene.queue(name, "task 0.txt")
    visit(browser, site, "tasks")
    shows(browser, "#progress", "0 of 500 done · 8 at work")
    assert browser.value("document.querySelectorAll('#list-tasks .line').length") < 60
    browser.press("1", "End")
    shows(browser, "#list-tasks .at", "task 499")
    scene.end("task 0")
    shows(browser, "#progress", "1 of 500 done")
    assert browser.complaints() == []

"""`dutlab serve` without a network: what each address answers, to whom, and what a run's events become."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO
from urllib.parse import quote, urlencode

import pytest
from click.testing import CliRunner

from dutlab.bounds import FAILED_LOGINS, FORM_BYTES, SLOW_ANSWER_S
from dutlab.cli.serve import TOKEN, serve
from dutlab.errors import InputError
from dutlab.serve import served_runs
from dutlab.serve.app import application
from dutlab.serve.control import LOG, Control, LogRefused
from dutlab.serve.guard import Guard, Logins
from dutlab.serve.pages import Pages
from dutlab.serve.served_runs import FolderRuns
from dutlab.serve.server import ServeRequest
from dutlab.store.manifest import PAUSE
from fake_run import Wanted, build
from processes import LIMIT_S

RUN = "2026-11-21T0801Z-firewall-modes-3f2a"
NOW = datetime(2026, 11, 23, 15, 0, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\033[31m\u202e\"'&{{7*7}}"
HEADERS = {
    "x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer", "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
}  # fmt: skip


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Asking:
    """Asks an application as a server would."""

    app: object
    client: str = "127.0.0.1"

    async def __call__(self, path: str, *, post: dict[str, str] | bytes | None = None, **headers: str) -> Answer:
        where, _, query = path.partition("?")
        body = urlencode(post).encode() if isinstance(post, dict) else post or b""
        sent = {"host": "127.0.0.1:8417", "accept": "text/html", **{k.replace("_", "-"): v for k, v in headers.items()}}
        sent |= {} if post is None else {"content-length": str(len(body)), "content-type": "application/x-www-form-urlencoded"}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET" if post is None else "POST", "scheme": "http",
            "path": re.sub("%([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), where), "raw_path": where.encode(), "query_string": query.encode(),
            "root_path": "", "headers": [(k.encode(), v.encode()) for k, v in sent.items()], "client": (self.client, 1), "server": ("127.0.0.1", 8417),
        }  # fmt: skip
        begun: dict[str, object] = {}
        parts: list[bytes] = []
        asked = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, object]:
            if asked:
                return asked.pop()
            await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                begun.update(message)
            else:
                parts.append(message.get("body", b""))  # type: ignore[arg-type]

        try:
            await self.app(scope, receive, send)  # type: ignore[operator]
        except Exception:
            if not begun:  # what is told, is told; Starlette raises it again for the log
                raise
        found = {k.decode(): v.decode() for k, v in begun["headers"]}  # type: ignore[attr-defined]
        return Answer(int(begun["status"]), found, b"".join(parts).decode(errors="replace"))  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs: one as it should be, one of hostile names, one that was cut, a damaged one and one of a newer dutlab."""
    runs = tmp_path_factory.mktemp("runs")
    small = {"repeats": 2, "seconds": 1, "cores": 0, "sizes": (64,)}
    build(runs, Wanted(**small))
    build(runs, Wanted(**small, experiment="again")).rename(runs / "2026-11-22T0801Z-again-0001")
    build(runs, Wanted(**small, experiment="hostile", hostile=HOSTILE))
    build(runs, Wanted(**small, experiment="cut", cut_after=2))
    (build(runs, Wanted(**small, experiment="damaged")) / "trials/0002/record.json").write_text("{")
    newer = build(runs, Wanted(**small, experiment="newer")) / "plan.json"
    newer.write_text(json.dumps({**json.loads(newer.read_text()), "schema_version": 999}))
    return runs


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture
def ask(made: Path) -> Asking:
    return Asking(application(Pages(FolderRuns(made)), Guard()))


async def test_every_answer_has_the_headers_that_keep_a_page_from_doing_anything_else(ask: Asking, made: Path) -> None:
    paths = ["/", f"/runs/{RUN}/report/", f"/runs/{RUN}/live", f"/runs/{RUN}/", f"/runs/{RUN}/plan.json", "/limits", "/testbeds", "/history",
             "/metrics", "/nothing", "/compare", "/static/style.css", "/runs/absent/live", "/control"]  # fmt: skip
    for path in paths:
        found = await ask(path)
        assert {name: found.headers.get(name) for name in HEADERS} == HEADERS | (
            {"cache-control": "max-age=300"} if path.startswith("/static") else {}
        ), path
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy, path
        assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0], path
        assert "<script>" not in found.text
        kinds = {tag.partition("=")[0] + "=" for tag in re.findall("<script [a-z]+=", found.text)}
        assert kinds <= {"<script id=", "<script type=", "<script src="} and found.text.count('<script id="figures">') < 2, path
    assert "sandbox" in (await ask(f"/runs/{RUN}/plan.json")).headers["content-security-policy"]
    async with asyncio.timeout(LIMIT_S):
        stream = await ask(f"/runs/{RUN}/events")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.text.endswith("event: over\ndata: over\n\n"), "a stream ends with its run"


async def test_the_list_narrows_by_all_that_runs_have_and_tells_what_is_wrong_with_each(ask: Asking) -> None:
    def names(page: Answer) -> list[str]:
        return re.findall(r'name="run" value="([^"]*)"', page.text)

    everything = names(await ask("/"))
    begun = [name for name in everything if "newer" not in name]  # what a newer dutlab wrote does not say when it began
    assert len(everything) == 6 and begun == sorted(begun, reverse=True)
    assert names(await ask("/?experiment=again")) == ["2026-11-22T0801Z-again-0001"]
    assert names(await ask("/?words=AGAIN+nat")) == ["2026-11-22T0801Z-again-0001"]
    assert names(await ask("/?status=cut")) == [n for n in everything if "-cut-" in n]
    assert {n.split("-")[3] for n in names(await ask("/?mode=nat&workload=rfc2544"))} <= {"firewall", "again", "hostile", "cut"}
    assert names(await ask("/?since=2026-11-22")) == []
    assert names(await ask("/?until=2026-11-20")) == []
    assert len(names(await ask("/?until=2026-11-21&doubt=note"))) >= 2
    page = await ask("/?words=damaged")
    assert "record.json" in page.text and "not JSON" in page.text
    assert len(names(await ask("/?status=newer"))) == 1
    assert "No run matches" in (await ask("/?words=nobody")).text
    assert (await ask("/?page=99999999999&words=" + "x" * 5000)).status == 200


async def test_no_name_of_a_run_becomes_a_part_of_a_page(ask: Asking) -> None:
    hostile = next(n for n in re.findall(r'name="run" value="([^"]*)"', (await ask("/")).text) if "hostile" in n)
    pages = ["/", f"/runs/{hostile}/report/", f"/runs/{hostile}/live", f"/compare?run={hostile}", "/testbeds", "/history?experiment=hostile",
             f"/?words={quote(HOSTILE)}", f"/limits?speed={quote(HOSTILE)}", f"/history?experiment={quote(HOSTILE)}",
             f"/compare?run={quote(HOSTILE)}"]  # fmt: skip
    for path in pages:
        text = (await ask(path)).text
        assert "<script>alert" not in text, path


async def test_nothing_outside_of_a_run_is_shown_and_no_link_is_followed(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (runs / RUN / "out").symlink_to(tmp_path)
    (runs / RUN / "file").symlink_to(tmp_path / "secret")
    (runs / "linked").symlink_to(tmp_path)
    (runs / RUN / "page.html").write_text("<script>alert(1)</script>")
    ask = Asking(application(Pages(FolderRuns(runs)), Guard()))
    bad = ["/runs/../secret", f"/runs/{RUN}/../../secret", f"/runs/{RUN}/%2e%2e/%2e%2e/secret", f"/runs/{RUN}/out/secret", f"/runs/{RUN}/file",
           "/runs/linked/secret", "/runs/.index.sqlite/", "/runs/%2e%2e/secret", f"/runs/{RUN}/plan.json%00", "/static/../app.py",
           f"/runs/{RUN}%2f..%2f..%2fsecret"]  # fmt: skip
    for path in bad:
        found = await ask(path)
        assert found.status == 404 and "secret" not in found.text, path
    listed = (await ask(f"/runs/{RUN}/")).text
    assert 'href="plan.json"' in listed and 'href="out' not in listed and 'href="file"' not in listed
    assert json.loads((await ask(f"/runs/{RUN}/plan.json")).text) == json.loads((runs / RUN / "plan.json").read_text())
    page = await ask(f"/runs/{RUN}/page.html")
    assert page.headers["content-disposition"].startswith("attachment") and page.headers["content-type"] == "application/octet-stream"


async def test_only_names_of_this_machine_are_answered_without_a_login(ask: Asking, made: Path) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example:8417", "", "localhost.evil.example"):
        assert (await ask("/", host=host)).status == 421, host
    for host in ("localhost:8417", "[::1]:8417", "127.0.0.1", "LOCALHOST"):
        assert (await ask("/", host=host)).status == 200, host
    guard = Guard(prefix="/bench")
    guard.hosts = (*guard.hosts, "bench.example")
    behind = Asking(application(Pages(FolderRuns(made), "/bench"), guard))
    page = await behind("/bench/", host="bench.example")
    assert page.status == 200 and 'href="/bench/limits"' in page.text and 'href="/limits"' not in page.text
    assert (await behind("/limits", host="bench.example")).status == 200, "a proxy may take the prefix off"


async def test_with_a_token_everything_needs_a_session(made: Path) -> None:
    token = "t" * 32
    guard, now = Guard(token), [1000.0]
    guard.logins = Logins(token, now=lambda: now[0])
    ask = Asking(application(Pages(FolderRuns(made), has_login=True), guard))
    refused = await ask("/", host="bench.example")
    assert (refused.status, refused.headers["location"]) == (303, "/login")
    assert (await ask(f"/runs/{RUN}/events", accept="text/event-stream")).status == 401
    assert (await ask("/metrics", authorization=f"Bearer {token}", accept="*/*")).status == 200
    assert (await ask("/login")).status == 200 and (await ask("/static/style.css")).status == 200
    assert (await ask("/login?token=wrong")).status == 403
    let_in = await ask("/login", post={"token": token})
    cookie = let_in.headers["set-cookie"]
    assert let_in.status == 303 and "HttpOnly" in cookie and "SameSite=strict" in cookie and token not in cookie
    session = cookie.partition(";")[0]
    assert (await ask("/", cookie=session)).status == 200
    opened = await ask(f"/login?token={token}")
    assert (opened.status, opened.headers["location"]) == (303, "/"), "the address that the terminal shows"
    assert (await ask("/", cookie=opened.headers["set-cookie"].partition(";")[0])).status == 200
    assert (await ask("/", cookie="dutlab_session=other")).status == 303
    await ask("/logout", cookie=session)
    assert (await ask("/", cookie=session)).status == 303
    now[0] += 13 * 3600
    assert not guard.logins.knows(session.partition("=")[2])


async def test_wrong_tokens_slow_down_their_sender_alone_and_the_right_one_always_passes(made, monkeypatch) -> None:
    token, now, slept = "t" * 32, [1000.0], list[float]()
    guard = Guard(token)
    guard.logins = Logins(token, now=lambda: now[0])
    ask = Asking(application(Pages(FolderRuns(made), has_login=True), guard))

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("dutlab.serve.guard.asyncio", SimpleNamespace(sleep=sleep))
    wrong = [(await ask("/login", post={"token": "wrong"})).status for _ in range(FAILED_LOGINS)]
    assert wrong == [403] * (FAILED_LOGINS - 1) + [429] and slept == [SLOW_ANSWER_S]
    late = await ask("/metrics", authorization="Bearer wrong", accept="*/*")
    assert late.status == 429 and int(late.headers["retry-after"]) > 0 and len(slept) == 2, "no other way to try tokens either"
    ask.client = "192.0.2.7"
    assert (await ask("/login", post={"token": "wrong"})).status == 403, "another sender"
    for sender in ("127.0.0.1", "192.0.2.7"):
        ask.client = sender
        assert (await ask("/login", post={"token": token})).status == 303
        assert (await ask("/metrics", authorization=f"Bearer {token}", accept="*/*")).status == 200
    now[0] += 61
    ask.client = "127.0.0.1"
    assert (await ask("/login", post={"token": "wrong"})).status == 403
    assert len(slept) == 2
    monkeypatch.setattr("dutlab.serve.guard.SENDERS", 10)
    for n in range(20):
        guard.logins.is_right("wrong", str(n))
    assert len(guard.logins._failed) <= 10


async def test_forms_of_others_change_nothing(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text("experiment: e\nworkloads: []\n")
    ask = Asking(application(Pages(FolderRuns(runs), has_control=True), Guard(), Control(runs, tmp_path)))
    plan = (await ask("/control?file=e.yaml")).text
    assert "cannot be started" in plan and "factors: missing" in plan and "<button>Start" not in plan, "a refused file has its faults"
    (tmp_path / "e.yaml").write_text(
        "experiment: e\ntestbed: {lab: three-node}\nfactors: {mode: [nat]}\nworkloads: [{sweep: {duration: 1s}}]\n"
    )
    plan = (await ask("/control?file=e.yaml")).text
    assert all(name in plan for name in ("mode (nat)", "three-node", "<button>Start"))
    form, seen = (re.search(rf'name="{name}" value="(\w+)"', plan) for name in ("form", "seen"))
    assert form is not None and seen is not None
    assert (await ask("/control", post={"file": "e.yaml", "form": form[1]})).status == 422, "its plan was not seen"
    (tmp_path / "e.yaml").write_text(
        "experiment: e\ntestbed: {lab: three-node}\nfactors: {mode: [router]}\nworkloads: [{sweep: {duration: 1s}}]\n"
    )
    assert (await ask("/control", post={"file": "e.yaml", "form": form[1], "seen": seen[1]})).status == 422, "it is another plan now"
    assert (await ask("/control?file=../e.yaml")).status == 422
    for post in ({"file": "e.yaml"}, {"file": "e.yaml", "form": "0" * 64}):
        assert (await ask("/control", post=post)).status == 403
    assert (await ask("/control", post={"file": "e.yaml", "form": form[1]}, sec_fetch_site="cross-site")).status == 403
    assert (await ask("/control", post={"file": "../e.yaml", "form": form[1]})).status == 422
    assert (await ask(f"/runs/{RUN}/pause", post={"form": form[1]})).status == 422, "nobody carries it out"
    assert (await ask(f"/runs/{RUN}/resume", post={"form": form[1]})).status == 422, "it has finished"
    assert (await ask(f"/runs/{RUN}/remove", post={"form": form[1]})).status == 404
    assert not (runs / RUN / PAUSE).exists()
    large = await ask("/control", post=b"form=" + b"x" * (FORM_BYTES + 1))
    assert large.status == 413
    reading = Asking(application(Pages(FolderRuns(runs)), Guard()))
    assert (await reading("/control")).status == 403
    assert (await reading(f"/runs/{RUN}/cancel", post={"form": form[1]})).status == 403


@pytest.mark.parametrize("kind", ["link", "link to nothing", "second name", "pipe", "folder"])
async def test_what_another_user_put_in_the_place_of_the_log_is_neither_shown_nor_written(made: Path, tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    (runs := tmp_path / "runs").mkdir()
    secret.write_text("secret")
    (runs / "cut").mkdir()
    match kind:
        case "link":
            (runs / LOG).symlink_to(secret)
        case "link to nothing":
            (runs / LOG).symlink_to(tmp_path / "made")
        case "second name":
            (runs / LOG).hardlink_to(secret)
        case "pipe":
            os.mkfifo(runs / LOG)
        case _:
            (runs / LOG).mkdir()
    control = Control(runs)
    assert "secret" not in (await Asking(application(Pages(FolderRuns(made), has_control=True), Guard(), control))("/control")).text
    with pytest.raises(LogRefused) as refused:
        control.resume(runs / "cut")
    assert refused.value.path == runs / LOG
    assert secret.read_text() == "secret" and not (tmp_path / "made").exists()


def test_the_log_of_started_commands_is_the_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def command(_: object, *, stdout: BinaryIO, **__: object) -> SimpleNamespace:
        stdout.write(b"what it said\n")
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr("subprocess.Popen", command)
    control = Control(tmp_path)
    assert control.last_words() == ""
    (tmp_path / "cut").mkdir()
    control.resume(tmp_path / "cut")
    control.resume(tmp_path / "cut")
    assert control.last_words() == "what it said\n" * 2
    assert stat.S_IMODE((tmp_path / LOG).stat().st_mode) == 0o600


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ServeRequest]:
    """What `dutlab serve` would have served."""
    seen = list[ServeRequest]()
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.setattr("dutlab.serve.server.run", lambda request, _: seen.append(request))
    return seen


def test_control_over_tcp_needs_a_token_that_is_printed_with_an_address_to_open(asked: list[ServeRequest], tmp_path: Path) -> None:
    def told(*words: str) -> dict[str, str | None]:
        done = CliRunner().invoke(serve, ["--json", "--port", "0", "--runs", str(tmp_path), *words])
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    found = told("--control")
    assert found["token"] == asked[-1].token and len(asked[-1].token) >= 32
    assert found["open"] == f"{found['address']}login?token={found['token']}"
    text = CliRunner().invoke(serve, ["--port", "0", "--runs", str(tmp_path), "--control"]).stdout
    assert text.count(f"login?token={asked[-1].token}") == 1
    assert (told()["token"], asked[-1].token) == (None, ""), "who only looks on, on this machine, needs none"
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text("t" * 32)
    found = told("--control", "--token-file", str(tmp_path / "token"))
    assert (found["token"], found["open"], asked[-1].token) == (None, None, "t" * 32)


def test_a_unix_socket_is_the_users_alone_and_needs_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, seen = tmp_path / "socket", list[tuple[int, str]]()

    def run(request: ServeRequest, listens: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(place))
        seen.append((stat.S_IMODE(place.lstat().st_mode), request.token))
        assert listens.family == socket.AF_UNIX

    monkeypatch.setattr("dutlab.serve.server.run", run)
    words = ["--json", "--runs", str(tmp_path), "--control", "--socket", str(place)]
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))  # of a server that was killed
    done = CliRunner().invoke(serve, words)
    assert done.exit_code == 0 and json.loads(done.stdout)["address"] == f"unix:{place}"
    assert seen == [(0o600, "")] and not place.exists()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(place))
        other.listen()
        assert isinstance(CliRunner().invoke(serve, words).exception, InputError), "another server has it"
    place.unlink()
    place.symlink_to(tmp_path / "made")
    assert isinstance(CliRunner().invoke(serve, words).exception, InputError) and not (tmp_path / "made").exists()
    assert CliRunner().invoke(serve, [*words, "--bind", "127.0.0.1"]).exit_code == 2
    assert len(seen) == 1


async def test_runs_are_compared_with_the_oldest_and_a_single_one_mode_by_mode(ask: Asking) -> None:
    page = await ask(f"/compare?run=2026-11-22T0801Z-again-0001&run={RUN}")
    assert page.status == 200 and "<svg" in page.text and "ratio" in page.text
    assert page.text.index(RUN) < page.text.index("2026-11-22T0801Z-again-0001"), "the older one is the baseline"
    assert (await ask(f"/compare?run={RUN}")).status == 200
    none = await ask("/compare")
    assert none.status == 422 and "select 1 to 8" in none.text
    assert (await ask("/compare?run=absent")).status == 404


async def test_limits_are_computed_and_what_is_wrong_is_told(ask: Asking) -> None:
    assert "14 880 952.38 pps" in (await ask("/limits?speed=10G&frames=64")).text
    assert "Random" in (await ask("/limits?raid=5&drives=32&read_iops=610200&write_iops=75k")).text
    for query in ("speed=fast", "frames=9", "mtu=x", "raid=77&read_iops=1&write_iops=1", "drives=-1&read_iops=1&write_iops=1", "ip=5"):
        page = await ask(f"/limits?{query}")
        assert page.status == 200 and 'role="alert"' in page.text, query


async def test_histories_and_testbeds(ask: Asking) -> None:
    assert "<svg" in (await ask("/history?experiment=firewall-modes")).text
    assert "no run of absent" in (await ask("/history?experiment=absent")).text
    assert (await ask("/history?experiment=firewall-modes&figure=absent")).status == 422
    page = (await ask("/testbeds")).text
    assert "e302-9d" in page


async def test_a_folder_of_runs_that_vanishes_is_told(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_runs, "_INDEX_S", 0.0)
    ask = Asking(application(Pages(FolderRuns(runs)), Guard()))
    assert (await ask("/")).status == 200
    shutil.rmtree(runs)
    assert (await ask("/")).status == 422
    assert (await ask(f"/runs/{RUN}/live")).status == 404

"""The report's HTML: complete in itself, safe with hostile text, reproducible, calm about what is missing."""

import base64
import hashlib
import json
import re
from contextlib import closing
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
from example_run import HOSTILE, write_example_run

from codea1_jax.common.errors import UserError
from codea1_jax.run.report import build_report, follow_report
from codea1_jax.run.report.page import embed_json
from codea1_jax.run.telemetry import Metrics, as_line

ASSETS = resources.files("codea1_jax.run.report.assets")


class Page(HTMLParser):
    """Elements with their attributes, and the text of scripts, styles and the title."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self._raw = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._raw = tag in ("script", "style", "title")
        if self._raw:
            self.texts.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._raw = False

    def handle_data(self, data: str) -> None:
        if self._raw:
            tag, attributes, text = self.texts[-1]
            self.texts[-1] = (tag, attributes, text + data)

    def data(self) -> dict:
        return json.loads(next(text for _, attributes, text in self.texts if attributes.get("id") == "data"))


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_example_run(tmp_path_factory.mktemp("runs") / "demo", steps=30, hostile=True)


@pytest.fixture(scope="module")
def page(run_dir: Path) -> Page:
    return Page(build_report([run_dir]))


def test_the_report_of_one_run_lies_in_its_directory_and_is_the_same_again(run_dir: Path) -> None:
    first, again = build_report([run_dir]), build_report([run_dir], run_dir / "again.html")
    assert (first, again) == (run_dir / "report.html", run_dir / "again.html")
    assert first.read_bytes() == again.read_bytes()


def test_the_page_refers_to_nothing_but_its_own_sections(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {value for _, attributes in page.elements for name in ("src", "href") if (value := attributes.get(name))}
    assert links and links <= {f"#{name}" for name in ids}
    styles = "".join(text for tag, _, text in page.texts if tag == "style")
    assert "url(" not in styles and "@import" not in styles


def test_the_policy_admits_our_script_and_style_alone_and_no_network(page: Page) -> None:
    policy = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    texts = {tag: text for tag, attributes, text in page.texts if "type" not in attributes}
    for tag in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(texts[tag].encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert not any(name.startswith("on") or name == "style" for _, a in page.elements for name in a)


def test_hostile_text_comes_back_exactly_and_adds_no_element(page: Page) -> None:
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not {"img", "iframe", "object", "base", "form"} & {tag for tag, _ in page.elements}
    question = page.data()["runs"][0]["rollouts"]["steps"][0]["questions"][-1]
    program = question["programs"][0]
    test = program["suites"][0]["tests"][0]
    assert [question["question"], question["reference"], program["program"]] == [HOSTILE] * 3
    assert test["call"] == f"f({HOSTILE!r})"
    assert program["suites"][0]["rejected"] == [{"text": HOSTILE, "reason": HOSTILE}]


@pytest.mark.parametrize("text", [HOSTILE, "<!--<script>", "]]>", "\0\x7f\x85", "𝕏\udfff"])
def test_embedded_json_has_no_character_that_html_could_read(text: str) -> None:
    embedded = embed_json({"text": text})
    assert json.loads(embedded) == {"text": text}
    assert embedded.isascii()
    assert not set("<>&\n") & set(embedded)


def test_a_hostile_run_name_is_only_text(tmp_path: Path) -> None:
    run = tmp_path / "<img src=x onerror=alert(1)>"
    run.mkdir()
    (run / "config.yaml").touch()
    page = Page(build_report([run]))
    assert "img" not in {tag for tag, _ in page.elements}
    assert next(text for tag, _, text in page.texts if tag == "title").startswith(run.name)


def test_curves_are_the_logged_figures_next_to_configuration_versions_and_summary(run_dir: Path, page: Page) -> None:
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    metrics = page.data()["runs"][0]["metrics"]
    for kind, name in (("train", "code/reward"), ("eval", "eval/mul")):
        logged = [line for line in lines if line["kind"] == kind]
        assert metrics[kind]["step"] == [line["step"] for line in logged]
        assert metrics[kind][name] == pytest.approx([line[name] for line in logged], rel=1e-5)
    run = page.data()["runs"][0]
    assert run["config"] == (run_dir / "config.yaml").read_text()
    assert run["versions"] == json.loads((run_dir / "versions.json").read_text())
    assert run["summary"] == json.loads((run_dir / "summary.json").read_text())
    assert (run["total_steps"], run["eval_samples"]) == (30, 8)


def test_a_run_that_just_started_is_empty_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").touch()
    run = Page(build_report([tmp_path])).data()["runs"][0]
    assert run["metrics"] == {}
    assert run["rollouts"] == {"recorded_steps": 0, "steps": []}
    assert (run["config"], run["versions"], run["summary"], run["total_steps"]) == ("", {}, {}, None)


def test_gaps_and_a_line_being_written_are_left_out(tmp_path: Path) -> None:
    with closing(Metrics(tmp_path)) as metrics:
        metrics.write(as_line("train", 1, {"code/reward": 0.5}))
        metrics.write(as_line("train", 2, {"code/reward": float("nan"), "code/kl": 0.1}))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')
    train = Page(build_report([tmp_path])).data()["runs"][0]["metrics"]["train"]
    assert (train["step"], train["code/reward"], train["code/kl"]) == ([1, 2], [0.5, None], [None, 0.1])


def test_a_path_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no run directory at .*nowhere"):
        build_report([tmp_path / "nowhere"])
    with pytest.raises(UserError, match=r"is not a run: it holds neither config\.yaml nor metrics\.jsonl"):
        build_report([tmp_path])
    assert list(tmp_path.iterdir()) == []


def test_following_rebuilds_until_interrupted_and_then_stops_reloading(tmp_path: Path) -> None:
    seen = []

    def wait(seconds: float) -> None:
        page = Page(tmp_path / "report.html")
        refresh = [a["content"] for _, a in page.elements if a.get("http-equiv") == "refresh"]
        seen.append((seconds, refresh, list(page.data()["runs"][0]["metrics"])))
        if len(seen) == 2:
            raise KeyboardInterrupt
        with closing(Metrics(tmp_path)) as metrics:
            metrics.write(as_line("train", 1, {"code/reward": 0.5}))

    (tmp_path / "config.yaml").touch()
    path = follow_report([tmp_path], seconds=7, wait=wait)
    assert seen == [(7, ["7"], []), (7, ["7"], ["train"])]
    assert "refresh" not in {a.get("http-equiv") for _, a in Page(path).elements}


def test_scripts_never_turn_text_into_markup_and_never_ask_the_network() -> None:
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\(|DOMParser"
    network = r"fetch\(|XMLHttp|import\(|WebSocket|EventSource|sendBeacon|https?://(?!www\.w3\.org/2000/svg)"
    scripts = [asset for asset in ASSETS.iterdir() if asset.name.endswith(".js")]
    assert len(scripts) > 10
    for script in scripts:
        assert not re.search(f"{markup}|{network}", script.read_text()), script.name


def test_every_asset_is_in_the_page_and_every_id_a_script_asks_for_exists(page: Page) -> None:
    joined = "".join(text for _, _, text in page.texts)
    scripts = {asset.name: asset.read_text() for asset in ASSETS.iterdir() if asset.name.endswith((".js", ".css"))}
    assert [name for name, text in scripts.items() if text not in joined] == []
    asked = set(re.findall(r'byId\("([\w-]+)"\)', joined))
    made = {a["id"] for _, a in page.elements if "id" in a} | set(
        re.findall(r'\bid: "([\w-]+)"|\.id = "([\w-]+)"', joined)
    )
    assert asked <= {name for entry in made for name in ([entry] if isinstance(entry, str) else entry)}

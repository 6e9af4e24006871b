"""The explorer as readers meet it: drawn at every width, by keyboard, by links, and with a tour."""

import pytest
from browsing import opened_explorer, ready
from typer.testing import CliRunner

from ridgeformer.cli import app
from ridgeformer.cli import explore as command
from ridgeformer.experiments.explorer.build import modules
from ridgeformer.experiments.explorer.shown import MODELS

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.pages]

LARGEST = 8e6
"""Bytes of the page."""
DRAWN = """() => ({
    lines: [...document.querySelectorAll('.curve .line')].map(l => [l.getAttribute('class'), l.getAttribute('d').length]),
    dots: document.querySelectorAll('.curve .dot').length,
    charts: [...document.querySelectorAll('.chart')].map(c => c.querySelectorAll('.line').length),
    canvases: [...document.querySelectorAll('canvas')].map(c => {
        const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return c.offsetParent === null ? 'hidden' : new Set(data).size > 6;
    }),
    broken: [...document.querySelectorAll('path')].filter(p => /NaN|Infinity/.test(p.getAttribute('d'))).length,
    wide: document.documentElement.scrollWidth,
})"""
UNNAMED = """() => [...document.querySelectorAll('input, select, button, [role=button]')].filter(e => {
    const named = (e.labels && [...e.labels].some(l => l.textContent.trim())) || e.textContent.trim()
        || e.getAttribute('aria-label');
    return !(e.tagName === 'SELECT' || e.tagName === 'INPUT' ? (e.labels && e.labels.length) : named);
}).map(e => e.outerHTML.slice(0, 80))"""


def curve(page, kind="compiled"):
    return page.locator(f".curve .line[class='line {kind}']").get_attribute("d")


def problems(page, width):
    drawn, found = page.evaluate(DRAWN), []
    kinds = [kind for kind, length in drawn["lines"] if length > 100]
    if "line exact" not in kinds or "line compiled" not in kinds or not drawn["dots"]:
        found.append(f"curves are missing: {drawn['lines']}")
    if drawn["charts"] != [3, 3] or drawn["canvases"] != [True, True] or drawn["broken"]:
        found.append(f"charts or maps are missing: {drawn}")
    if drawn["wide"] > width:
        found.append(f"the page is {drawn['wide']} wide")
    return found


@pytest.mark.parametrize("width", [1366, 1024, 500, 360])
def test_everything_is_drawn(opened, width):
    assert problems(opened(width=width), width) == []


def test_the_page_is_small(explorer):
    assert explorer.stat().st_size <= LARGEST


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("errorChart(part", "(() => 0)(part"),
        ("heat(this.stream", "(() => 0)(this.stream"),
        ("curve.show(points", "(() => 0)(points"),
    ],
)
def test_what_is_not_drawn_is_noticed(browser, tmp_path, before, after, monkeypatch):
    from ridgeformer.experiments.explorer import build

    texts = {name: text.replace(before, after) for name, text in modules().items()}
    assert texts != modules()
    monkeypatch.setattr(build, "modules", lambda: texts)
    path = tmp_path / "broken.html"
    path.write_text(build.page.__wrapped__())
    page, _ = opened_explorer(browser, path, 1024)
    assert problems(page, 1024) != []
    page.context.close()


def test_every_control_has_a_label(opened):
    assert opened().evaluate(UNNAMED) == []


def test_every_model_is_shown(opened):
    page = opened("count=9")
    for shown in MODELS:
        page.evaluate(
            "([w, name, trained]) => explorer.choose({world: w, [trained ? 'trained' : 'model']: name, position: -1})",
            [shown.world, shown.name, shown.trained],
        )
        page.wait_for_function(
            "([name]) => Object.values(explorer.state()).includes(name)", arg=[shown.name]
        )
        kind = "trained" if shown.trained else "compiled"
        page.wait_for_function(f"document.querySelector('.curve .line.{kind}:not(.earlier)')")
        assert page.locator("[data-part=refusal]").text_content() == ""


def test_a_shared_link_restores_the_view(opened):
    first = opened(
        "world=smooth&model=cg-smooth&trained=gp&ridge=0.1&position=30&selected=2&seed=7"
    )
    first.keyboard.press("Tab")
    first.locator(".dot").nth(2).focus()
    first.keyboard.press("ArrowUp")
    first.keyboard.press("f")
    link = ready(first)
    assert "points=" in link
    second = opened(link.removeprefix("#"))
    assert second.evaluate("explorer.state()") == first.evaluate("explorer.state()")
    for kind in ("compiled", "trained", "exact"):
        assert curve(second, kind) == curve(first, kind)
    assert ready(second) == link


def test_a_link_keeps_every_choice(opened):
    """Each control is used as readers use it; a second page from the link shows the same, and its address is the same."""
    first = opened("world=smooth")
    first.get_by_label("Compiled model", exact=True).select_option("cg-smooth")
    first.get_by_label("Ridge λ").last.select_option("1")
    for name in ("Kernel width ℓ", "Number of examples", "Noise of the labels"):
        first.get_by_label(name).focus()
        for _ in range(3):
            first.keyboard.press("ArrowLeft")
    first.get_by_role("button", name="Other examples").click()
    first.locator(".dot").nth(1).focus()
    first.keyboard.press("f")
    first.get_by_label("Layer", exact=True).focus()
    for key in ("Home", "ArrowRight", "ArrowRight"):
        first.keyboard.press(key)
    first.get_by_label("Token", exact=True).select_option("e2")
    first.locator("[data-part=heads] input").first.focus()
    for off in (True, False, True):  # the focus stays on the head
        first.keyboard.press("Space")
        ready(first)
        assert bool(first.evaluate("explorer.state().off")) == off
    link = ready(first)
    state = first.evaluate("explorer.state()")
    from_start = opened().evaluate("explorer.state()")
    chosen = {name for name in state if state[name] != from_start[name]}
    assert chosen >= {
        "world", "model", "trained", "ridge", "width", "count", "noise", "seed", "points", "position", "selected",
        "token", "off",
    }  # fmt: skip
    second = opened(link.removeprefix("#"))
    assert second.evaluate("explorer.state()") == state
    assert ready(second) == link
    assert second.evaluate(SHOWN) == first.evaluate(SHOWN)


SHOWN = """() => ({
    lines: [...document.querySelectorAll('svg .line, svg .mark, svg .dot')].map(e => e.outerHTML.replace(/ focus.*?"/, '')),
    maps: [...document.querySelectorAll('canvas')].map(c => c.toDataURL()),
    inputs: [...document.querySelectorAll('input, select')].map(e => [e.value, e.checked]),
    words: document.querySelector('[data-part=words]').textContent,
})"""


BOUNDED = [shown for shown in MODELS if not shown.trained and shown.ridges() != (None,)]


@pytest.mark.parametrize("shown", BOUNDED, ids=lambda shown: shown.name)
def test_no_error_crosses_its_bound(opened, shown):
    """For several prompts and settings of each model that has a theorem; the model's own error is allowed for."""
    page = opened(f"world={shown.world}&model={shown.name}&trained=none&position=0")
    compared = 0
    for seed, count, ridge in [(1, 3, 0.01), (2, 14, 0.1), (3, 40, 1.0), (4, 64, 1.0), (5, 9, 0.1)]:
        if shown.world == "waves":
            ridge = max(ridge, 0.2)  # noqa: PLW2901
        for changes in ({"condition": 1, "width": 0.3}, {"condition": 100, "width": 1}):
            found = page.evaluate(
                "async (c) => { await explorer.choose(c); return explorer.errors(); }",
                {"seed": seed, "count": count, "ridge": ridge, "noise": 0.3, **changes},
            )
            assert found["refused"] is None
            for (step, error), (same, bound) in zip(found["errors"], found["bound"], strict=True):
                assert step == same
                assert error <= bound * (1 + 1e-9) + 1e-8, (seed, changes, step)
                compared += step > 0
    assert compared >= 10 * 8


def test_the_decoder_predicts_each_example_before_its_label(opened):
    page = opened("model=decoder&trained=none&count=9")
    rings = page.locator(".curve .ahead")
    assert rings.count() == 9
    axis = page.evaluate("document.querySelector('.axes line:nth-of-type(2)').getAttribute('y1')")
    assert float(rings.first.get_attribute("cy")) == float(axis)  # it knows nothing yet, and says 0
    before = [ring.get_attribute("cy") for ring in rings.all()]
    page.locator(".dot").nth(4).focus()
    page.keyboard.press("f")
    ready(page)
    after = [ring.get_attribute("cy") for ring in rings.all()]
    assert after[:5] == before[:5]  # what comes later is not seen
    assert after[5:] != before[5:]


@pytest.fixture
def touched(browser, explorer):
    context = browser.new_context(
        viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True, offline=True
    )
    page = context.new_page()
    page.goto(explorer.as_uri())
    page.wait_for_function("document.body.dataset.ready === 'yes'")
    session = context.new_cdp_session(page)

    def swipe(x, y, to_x, to_y):
        session.send(
            "Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]}
        )
        for part in (0.25, 0.5, 0.75, 1):
            at = {"x": x + part * (to_x - x), "y": y + part * (to_y - y)}
            session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [at]})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        ready(page)

    yield page, swipe
    context.close()


def middle(box):
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_fingers_add_move_and_scroll(touched):
    page, swipe = touched
    dots = page.locator(".dot")
    count, box = dots.count(), page.locator(".curve").bounding_box()
    empty = box["x"] + 0.5 * box["width"], box["y"] + 0.93 * box["height"]
    page.touchscreen.tap(*empty)
    page.wait_for_function("n => document.querySelectorAll('.dot').length === n", arg=count + 1)
    before, scrolled = dots.nth(count).get_attribute("transform"), page.evaluate("scrollY")
    x, y = middle(dots.nth(count).bounding_box())
    swipe(x, y, x + 30, y - 60)
    assert dots.nth(count).get_attribute("transform") != before
    assert page.evaluate("scrollY") == scrolled  # a dot is dragged, and the page stays
    page.get_by_role("button", name="Remove the selected one").tap()
    page.wait_for_function("n => document.querySelectorAll('.dot').length === n", arg=count)
    page.evaluate("scrollTo(0, 0)")
    box = page.locator(".curve").bounding_box()
    x, y = box["x"] + 0.5 * box["width"], box["y"] + 0.93 * box["height"]
    swipe(x, y, x, y - 200)
    assert page.evaluate("scrollY") > 0  # beside the dots, the page is scrolled, and none is added
    assert dots.count() == count
    page.locator("[data-part=stream] canvas").tap()
    assert "Column" in page.locator(".told").text_content()


def test_the_stream_is_read_by_keyboard(opened):
    page = opened("position=5")
    page.locator("[data-part=stream] canvas").focus()
    told = []
    for key in ("ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
        told.append(page.locator(".told").text_content())
    assert told[0].startswith("Column 1")
    assert "MLP of layer 5" in told[0]
    assert "attention of layer 5" in told[1]


def test_a_damaged_link_shows_something(opened):
    page = opened(
        "world=nowhere&count=1e99&points=1,2_x,y_&seed=-3&model=zzz&position=x&off=9.9_role:zz"
    )
    assert curve(page)


def test_dots_move_by_keyboard(opened):
    page = opened()
    page.locator(".dot").nth(0).focus()
    before, label = curve(page), page.locator(".dot").nth(0).get_attribute("aria-label")
    page.keyboard.press("ArrowUp")
    page.wait_for_function(
        "label => document.querySelector('.dot').getAttribute('aria-label') !== label", arg=label
    )
    assert curve(page) != before
    count = page.locator(".dot").count()
    page.keyboard.press("PageDown")
    page.keyboard.press("Delete")
    page.wait_for_function("n => document.querySelectorAll('.dot').length === n", arg=count - 1)
    assert page.evaluate("document.activeElement.classList.contains('dot')")


def test_a_click_adds_an_example_and_a_drag_moves_it(opened):
    page = opened()
    count = page.locator(".dot").count()
    box = page.locator(".curve").bounding_box()
    x, y = box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"]
    page.mouse.click(x, y)
    page.wait_for_function("n => document.querySelectorAll('.dot').length === n", arg=count + 1)
    before = curve(page)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y + 120, steps=4)
    page.mouse.up()
    ready(page)
    assert curve(page) != before
    assert "points=" in page.evaluate("location.hash")


def test_the_layer_slider_works_by_keyboard(opened):
    page = opened("position=0")
    page.locator("#layer").focus()
    words = page.locator("[data-part=words] h3")
    assert words.text_content() == "Before the first of 71 layers"
    for _ in range(8):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("explorer.state().position === 8")
    assert words.text_content() == "After layer 8 of 71, step 1 is complete"


def test_a_head_that_is_switched_off_breaks_the_model(opened):
    page = opened()
    whole = curve(page)
    page.evaluate("explorer.choose({position: 3})")
    page.get_by_role("button", name="all “matvec” heads off").click()
    page.wait_for_function("explorer.state().off === 'role:matvec'")
    page.evaluate("explorer.choose({position: -1})")
    ready(page)
    assert curve(page) != whole
    page.locator("#all-on").click()
    ready(page)
    assert curve(page) == whole


def test_a_prompt_outside_the_domain_is_refused_in_words(opened):
    page = opened("count=64&ridge=0.03&condition=1")
    assert "refuses this prompt: the kernel matrix may have eigenvalues up to 1000" in (
        page.locator("[data-part=refusal]").text_content()
    )


UNCOVERED = """() => {
    const pointed = document.querySelector('.pointed').getBoundingClientRect();
    const box = document.querySelector('aside').getBoundingClientRect();
    const apart = box.left >= pointed.right || box.right <= pointed.left;
    return pointed.top >= -1 && (apart || box.top - pointed.top >= Math.min(pointed.height, 250));
}"""


@pytest.mark.parametrize("width", [1366, 500])
def test_the_tour_can_be_walked(opened, width):
    page = opened(width=width)
    page.locator("#start-tour").click()
    titles = []
    for _ in range(9):
        page.wait_for_selector("aside h2")
        ready(page)
        titles.append(page.locator("aside h2").text_content())
        assert page.locator(".pointed").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(UNCOVERED)
        if page.get_by_role("button", name="Done").count():
            break
        page.keyboard.press("Enter")  # Next has the focus
        page.wait_for_function(
            "t => document.querySelector('aside h2').textContent !== t", arg=titles[-1]
        )
    assert len(titles) == len(set(titles)) <= 8
    page.get_by_role("button", name="Done").click()
    assert not page.locator("aside").is_visible()


def test_the_command_writes_the_page(tmp_path, explorer, monkeypatch):
    asked = []
    monkeypatch.setattr(command, "has_display", lambda: True)
    monkeypatch.setattr(command, "opened", lambda path: asked.append(path) or True)
    out = tmp_path / "some" / "explorer.html"
    result = CliRunner().invoke(app, ["explore", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert asked == [out]
    assert out.read_bytes() == explorer.read_bytes()
    assert [p.name for p in out.parent.iterdir()] == ["explorer.html"]


def test_without_a_display_the_path_is_printed(tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command.sys, "platform", "linux")
    out = tmp_path / "explorer.html"
    result = CliRunner().invoke(app, ["explore", "--out", str(out)])
    assert str(out) in result.output
    assert "No browser could be started here" in result.output

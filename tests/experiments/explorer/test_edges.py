"""The explorer at its edges: strange links, crowded dots, models that refuse, small screens."""

import pytest
from browsing import ready

from ridgeformer.experiments.explorer.shown import MODELS

pytestmark = [pytest.mark.usefixtures("unchecked"), pytest.mark.pages]

REFUSED = "count=64&ridge=0.03&condition=1"


def state(page):
    return page.evaluate("explorer.state()")


@pytest.mark.parametrize(
    "view",
    [
        "toString=1&constructor=2",
        "world=toString",
        "world=__proto__",
        "inside=both",
        "%E0%A4%A&=&&",
    ],
)
def test_words_of_the_language_in_a_link_mean_nothing(opened, view):
    page = opened(view)
    assert page.locator(".curve .line.exact").count() == 1
    assert page.locator("input[name=inside]:checked").count() == 1
    assert state(page)["world"] == "waves"


def test_one_dot_can_always_be_reached_by_keyboard(opened):
    page = opened("selected=63")
    reachable = page.locator(".dot[tabindex='0']")
    assert reachable.count() == 1
    page.evaluate("explorer.choose({count: 3})")
    assert reachable.count() == 1
    assert page.locator(".chosen").text_content().startswith("Example 3,")


def test_a_link_in_the_same_page_opens_and_closes_the_tour(opened):
    page = opened()
    page.evaluate("location.hash = 'tour=3'")
    page.wait_for_selector("aside h2")
    assert page.locator("aside .count").text_content() == "3 of 8"
    page.evaluate("location.hash = 'count=5'")
    page.wait_for_selector("aside", state="hidden")
    assert page.locator(".pointed").count() == 0


def test_other_examples_are_as_many_as_there_are(opened):
    page = opened("count=9")
    for _ in range(3):
        page.get_by_role("button", name="Remove the selected one").click()
    page.get_by_role("button", name="Other examples").click()
    ready(page)
    assert page.locator(".dot").count() == 6
    shared = opened("points=0,1_0.5,1")
    shared.get_by_role("button", name="Other examples").click()
    ready(shared)
    assert shared.locator(".dot").count() == 2


def test_buttons_that_would_do_nothing_say_so(opened):
    page = opened("count=62")
    add = page.get_by_role("button", name="Add one")
    for _ in range(2):
        add.click()
    ready(page)
    places = page.locator(".dot").evaluate_all("dots => dots.map(d => d.getAttribute('transform'))")
    assert len(set(places)) == 64  # none is hidden behind another
    assert add.is_disabled()
    assert opened("count=1").get_by_role("button", name="Remove the selected one").is_disabled()


def test_the_nearest_of_crowded_dots_is_taken(opened):
    page = opened("points=0,1_0.02,1_0.04,1&selected=2")
    for i in range(3):
        box = page.locator(".dot circle + circle").nth(i).bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        assert state(page)["selected"] == i
    assert state(page)["points"] == "0,1_0.02,1_0.04,1"


def test_only_the_first_button_of_a_mouse_draws(opened):
    page = opened()
    count, box = page.locator(".dot").count(), page.locator(".curve").bounding_box()
    page.mouse.click(box["x"] + 200, box["y"] + 40, button="right")
    ready(page)
    assert page.locator(".dot").count() == count


def test_the_keys_of_the_browser_stay_its_own(opened):
    page = opened()
    page.locator(".dot").first.focus()
    before = page.locator(".dot").first.get_attribute("aria-label")
    for keys in ("Control+f", "Alt+ArrowLeft"):
        page.keyboard.press(keys)
    assert page.locator(".dot").first.get_attribute("aria-label") == before
    page.keyboard.press("Shift+F")
    ready(page)
    assert page.locator(".dot").first.get_attribute("aria-label") != before


def test_a_model_that_refuses_shows_nothing_inside(opened):
    page = opened(REFUSED)
    stream = page.locator("[data-part=stream] canvas")
    for view in (REFUSED, "count=9", REFUSED):
        page.evaluate("view => { location.hash = view; }", view)
        ready(page)
        stream.hover()
        stream.focus()
        page.keyboard.press("ArrowDown")
        refused = view == REFUSED
        assert ("did not run" in page.locator("[data-part=words]").text_content()) == refused
        assert page.locator("[data-part=heads] .head").count() == (0 if refused else 2)
        assert page.get_by_role("button", name="Play").is_disabled() == refused
        assert bool(page.locator(".told").text_content()) != refused


def test_playing_goes_on_where_it_paused(opened):
    page = opened("position=20")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("explorer.state().position > 20")
    page.get_by_role("button", name="Pause").click()
    paused = state(page)["position"]
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("at => explorer.state().position > at", arg=paused)
    page.get_by_role("button", name="Pause").click()
    assert state(page)["position"] > paused


def test_a_query_keeps_its_place_while_a_dot_is_dragged(opened):
    page = opened()
    page.get_by_label("Token", exact=True).select_option("q7")
    token = page.locator("#token option:checked")
    assert token.text_content() == "a query at x = 0.75"
    page.evaluate("explorer.drags(1)")
    assert token.text_content() == "a query at x = 0.75"


def test_what_is_told_of_a_cell_follows_the_view(opened):
    page = opened("position=5")
    told, stream = page.locator(".told"), page.locator("[data-part=stream] canvas")
    stream.focus()
    page.keyboard.press("ArrowRight")
    value = told.text_content()
    page.get_by_label("Token", exact=True).select_option("e1")
    assert told.text_content() != value
    page.keyboard.press("Tab")
    stream.focus()
    page.keyboard.press("ArrowDown")
    assert told.text_content().endswith("not there yet")


GREY = """() => {
    const map = document.querySelector('[data-part=attention] canvas');
    const copy = new OffscreenCanvas(map.width, 1).getContext('2d');
    copy.drawImage(map, 0, 0);
    const { data } = copy.getImageData(0, 0, map.width, 1);
    return Array.from({ length: map.width }, (_, i) => data.slice(4 * i, 4 * i + 3).join() === '236,236,234');
}"""


def test_a_head_that_reads_the_aggregator_is_seen_to_read_it(opened):
    """Products with tokens that give the head nothing would say that it reads the examples."""
    page = opened("count=5")
    assert "reads the aggregator" in page.locator("[data-part=words]").text_content()
    assert page.evaluate(GREY) == [True] * 5 + [False]
    assert page.locator(".silent").is_visible()
    page.evaluate("explorer.choose({position: 10, head: 1})")  # the product with the kernel matrix
    assert page.evaluate(GREY)[:5] == [False] * 5
    page.evaluate("explorer.choose({inside: 'trained', position: 3})")
    assert True not in page.evaluate(GREY)
    assert not page.locator(".silent").is_visible()


def test_it_is_said_which_ridge_a_trained_model_is_compared_with(opened):
    view = "world=smooth&model=cg-smooth&trained=gp&ridge="
    assert "trained for λ = 0.1" in opened(view + "1").locator(".known").text_content()
    for ridge in ("0.1", "1&trained=none"):
        assert opened(view + ridge).locator(".known").text_content() == ""


def test_the_steps_slider_can_leave_zero(opened):
    page = opened("position=0")
    page.get_by_label("Steps of the method").focus()
    page.keyboard.press("ArrowRight")
    ready(page)
    assert page.locator("output[for=c-steps]").text_content() == "1"


CUT = """() => [...document.querySelectorAll('form select')].filter(s => s.offsetParent).flatMap(s => {
    const paper = document.createElement('canvas').getContext('2d');
    paper.font = getComputedStyle(s).font;
    return [...s.options].map(o => o.text).filter(t => paper.measureText(t).width > s.clientWidth - 32);
})"""


@pytest.mark.parametrize("width", [1366, 1024, 390])
def test_no_choice_is_cut(opened, width):
    page = opened(width=width)
    for world in {shown.world for shown in MODELS}:
        page.evaluate("world => explorer.choose({world})", world)
        assert page.evaluate(CUT) == []


def test_a_finger_on_a_phone_can_hold_a_dot(opened):
    page = opened(width=390)
    for box in [dot.bounding_box() for dot in page.locator(".dot").all()]:
        assert min(box["width"], box["height"]) >= 24
    assert (
        page.evaluate(
            "Math.min(...[...document.querySelectorAll('.curve text, .chart text')].map(t => t.getBoundingClientRect().height))"
        )
        >= 11
    )


@pytest.mark.parametrize("height", [800, 640])
def test_the_tour_can_be_walked_on_a_phone(opened, height):
    page = opened(width=390)
    page.set_viewport_size({"width": 390, "height": height})
    page.locator("#start-tour").click()
    for _ in range(7):
        ready(page)
        box = page.get_by_role("button", name="Next").bounding_box()
        assert box["y"] + box["height"] <= height
        page.get_by_role("button", name="Next").click()
    ready(page)
    assert (
        page.locator(".known").text_content() == ""
    )  # the last stop compares both models with the same ridge

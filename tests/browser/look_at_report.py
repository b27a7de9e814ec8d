# SPDX-License-Identifier: Apache-2.0
"""Looks at report pages in headless Chromium. Usage: look_at_report.py FOLDER PICTURES [--update]

FOLDER holds small.html, large.html and hostile.html; PICTURES the pictures that panels of small.html should look like,
which --update writes anew. Checked are: nothing is asked of the network and nothing complained of on the console;
hovering shows the operator and holds when clicked; orders, virtual lists, keys, zoom, dark colours; that blocks of the
graph open and close and lines do not cross boxes; that hostile names are only text; that a page of 2,000 operators answers quickly enough not to be felt; and that the panels look the same.
"""

import io
import json
import os
import sys

from PIL import Image, ImageChops, ImageFilter, ImageStat
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

WIDTH, HEIGHT = 1280, 900
problems = []


def check(fine, what):
    if not fine:
        problems.append(what)
        print("FAIL:", what, file=sys.stderr)


def open_browser():
    options = webdriver.ChromeOptions()
    # Containers run as root and with a small /dev/shm.
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--force-color-profile=srgb", "--font-render-hinting=none", "--disable-background-networking",
                     "--disable-extensions", f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False})
    return browser


def load(browser, path):
    browser.get("file://" + os.path.abspath(path))
    WebDriverWait(browser, 20).until(
        lambda b: b.execute_script("return document.documentElement.dataset.ready") == "true")
    settle(browser)


def settle(browser):
    """Waits for what the page does in its next frames."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));")


def text(browser, identifier):
    return browser.find_element(By.ID, identifier).text


def hover(browser, element, part, height=0.5):
    """Moves the mouse to a part of an element's width, from the left."""
    size = element.size
    ActionChains(browser).move_to_element_with_offset(
        element, int(size["width"] * (part - 0.5)), int(size["height"] * (height - 0.5))).perform()
    settle(browser)


def scroll_to(browser, element):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});", element)
    settle(browser)


def check_quiet(browser, name):
    for entry in browser.get_log("browser"):
        check(False, f"{name}: console: {entry['message']}")
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            check(url.startswith(("file:", "data:")), f"{name}: asks for {url}")


def check_hover(browser, name):
    data = json.loads(browser.execute_script("return document.getElementById('data').textContent"))
    names = [op[0] for op in data["ops"]]
    timeline = browser.find_element(By.ID, "timeline")
    scroll_to(browser, timeline)
    seen = set()
    for part in (0.2, 0.5, 0.8):
        hover(browser, timeline, part, 0.4)
        shown = text(browser, "moment-op")
        seen.add(text(browser, "moment-when"))
        check(shown in names, f"{name}: hovering shows '{shown}', which is no operator")
        check(text(browser, "tip").startswith(shown), f"{name}: the tip says '{text(browser, 'tip')}', the panel '{shown}'")
        # The operator is the one of the moment stated, and the buffers listed are those live in it.
        moment = int(text(browser, "moment-when").upper().split("OPERATOR ")[1].split(" OF")[0].replace(",", "")) - 1
        check(names[data["moments"][moment][0]] == shown, f"{name}: moment {moment} is not '{shown}'")
        live = sum(1 for life in data["lives"] if life[3] + life[7] <= moment <= life[4])
        check(text(browser, "moment-count").replace(",", "").startswith(f"{live} buffer"),
              f"{name}: {live} are live, the panel says '{text(browser, 'moment-count')}'")
    check(len(seen) == 3, f"{name}: three places, {len(seen)} moments")
    # Held by a click, moved by keys, let go by Escape.
    hover(browser, timeline, 0.5, 0.4)
    ActionChains(browser).click().perform()
    settle(browser)
    held = text(browser, "moment-when")
    hover(browser, timeline, 0.7, 0.4)
    check(text(browser, "moment-when") == held and "HELD" in held.upper(), f"{name}: a click does not hold: {held}")
    timeline.send_keys(Keys.ARROW_RIGHT)
    settle(browser)
    check(text(browser, "moment-when") != held, f"{name}: the arrow key does not move on")
    timeline.send_keys(Keys.ESCAPE)
    hover(browser, timeline, 0.3, 0.4)
    check("HELD" not in text(browser, "moment-when").upper(), f"{name}: Escape does not let go")
    return data


def check_lists(browser, name, data):
    again = [op for op in data["ops"] if op[4] > 1]
    box = browser.find_element(By.ID, "again-list")
    scroll_to(browser, box)
    rows = box.find_elements(By.CSS_SELECTOR, ".row")
    check(0 < len(rows) <= 40, f"{name}: {len(rows)} rows exist for {len(again)} operators")
    check(rows[0].find_element(By.CLASS_NAME, "name").text == max(again, key=lambda op: op[5])[0],
          f"{name}: the dearest is not first")
    browser.find_element(By.ID, "by-bytes").click()
    settle(browser)
    first = box.find_element(By.CSS_SELECTOR, ".row .name").text
    check([op[6] for op in again if op[0] == first] == [max(op[6] for op in again)], f"{name}: the largest is not first")
    browser.execute_script("arguments[0].scrollTop = 1e9", box)
    settle(browser)
    smallest = box.find_elements(By.CSS_SELECTOR, ".row .name")[-1].get_attribute("textContent")
    check([op[6] for op in again if op[0] == smallest] == [min(op[6] for op in again)],
          f"{name}: the end of the list is not the smallest")
    browser.find_element(By.ID, "by-cost").click()
    settle(browser)


# Points of lines that lie in a box: lines do not cross boxes and end at their edges. Behind the title of an open block is fine.
CROSSINGS = """
    const graph = document.getElementById('graph'), origin = graph.getBoundingClientRect(), found = [];
    const boxes = [...graph.querySelectorAll('.box:not(.title)')].map((box) => [box, box.getBoundingClientRect()]);
    for (const line of graph.querySelectorAll('.line')) {
        for (let at = 0; at < line.getTotalLength(); at += 3) {
            const p = line.getPointAtLength(at), x = p.x + origin.left, y = p.y + origin.top;
            for (const [box, r] of boxes) {
                if (x > r.left + 1 && x < r.right - 1 && y > r.top + 1 && y < r.bottom - 1) { found.push(box.textContent); }
            }
        }
    }
    return [...new Set(found)];"""


def shown(browser, key):
    found = browser.find_elements(By.CSS_SELECTOR, f'#graph [data-key="{key}"]')
    return found[0] if found else None


def focused(browser):
    return browser.execute_script("return document.activeElement.dataset.key || ''")


def check_graph(browser, name, data):
    """A box a block and side; a block opens into its operators and closes, by mouse and by keyboard."""
    graph = browser.find_element(By.ID, "graph")
    scroll_to(browser, graph)
    sides = {}
    for at, op in enumerate(data["ops"]):
        sides.setdefault((op[11], "backward" if op[1] >= 2 else "forward"), []).append(at)
    keys = browser.execute_script("return [...document.querySelectorAll('#graph .box')].map((box) => box.dataset.key)")
    check(sorted(keys) == sorted(f"b{block}{side}" for block, side in sides), f"{name}: boxes are {keys}")
    check(browser.execute_script(CROSSINGS) == [], f"{name}: lines run through {browser.execute_script(CROSSINGS)}")
    block = max(range(len(data["blocks"])), key=lambda b: len(sides.get((b, "forward"), [])))
    inside = sides[block, "forward"] + sides.get((block, "backward"), [])
    box = shown(browser, f"b{block}forward")
    check(data["blocks"][block] in box.text, f"{name}: block {block} says '{box.text}'")
    hover(browser, box, 0.5)
    check(f"{len(sides[block, 'forward'])} operators, forward" in text(browser, "tip"), f"{name}: the block's tip says '{text(browser, 'tip')}'")
    box.click()
    settle(browser)
    box = shown(browser, f"b{block}forward")
    check(box.get_attribute("aria-expanded") == "true", f"{name}: a click does not open the block")
    check(all(shown(browser, f"o{v}") is not None for v in inside), f"{name}: operators of the open block are missing")
    check(len(browser.find_elements(By.CSS_SELECTOR, "#graph .box")) == len(sides) + len(inside) - 1,
          f"{name}: other blocks are not as they were")
    check(browser.execute_script(CROSSINGS) == [], f"{name}: open, lines run through {browser.execute_script(CROSSINGS)}")
    places = [browser.execute_script("return arguments[0].offsetTop", shown(browser, f"o{v}")) for v in inside]
    forward, backward = places[:len(sides[block, "forward"])], places[len(sides[block, "forward"]):]
    check(forward == sorted(forward) and backward == sorted(backward, reverse=True), f"{name}: the order is {places}")
    hover(browser, shown(browser, f"o{inside[0]}"), 0.5)
    check(data["ops"][inside[0]][0] in text(browser, "tip"), f"{name}: the operator's tip says '{text(browser, 'tip')}'")
    box.click()
    settle(browser)
    check(shown(browser, f"o{inside[0]}") is None, f"{name}: a second click does not close the block")
    # The same by keyboard: one box is reached by Tab, arrows move on, Enter opens and closes.
    check(len(browser.find_elements(By.CSS_SELECTOR, '#graph .box[tabindex="0"]')) == 1, f"{name}: Tab stops more than once")
    check(focused(browser) == f"b{block}forward", f"{name}: the focus is at '{focused(browser)}'")
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    settle(browser)
    check(shown(browser, f"o{inside[0]}") is not None, f"{name}: Enter does not open the block")
    check(focused(browser) == f"b{block}forward", f"{name}: opening loses the focus to '{focused(browser)}'")
    ActionChains(browser).send_keys(Keys.ARROW_DOWN).perform()
    check(focused(browser) == f"o{inside[0]}", f"{name}: the arrow goes to '{focused(browser)}'")
    ActionChains(browser).send_keys(Keys.ARROW_UP, Keys.ENTER).perform()
    settle(browser)
    check(shown(browser, f"o{inside[0]}") is None, f"{name}: Enter does not close the block")
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    check(focused(browser).endswith("backward"), f"{name}: the right arrow goes to '{focused(browser)}'")
    ActionChains(browser).send_keys(Keys.HOME).perform()
    check(browser.execute_script("return document.activeElement.offsetTop") == 0, f"{name}: Home goes to '{focused(browser)}'")


def check_zoom(browser, name):
    timeline = browser.find_element(By.ID, "timeline")
    scroll_to(browser, timeline)

    def labels():
        return [e.text for e in timeline.find_elements(By.CSS_SELECTOR, ".dygraph-axis-label-x")]
    before = labels()
    size = timeline.size
    ActionChains(browser).move_to_element_with_offset(timeline, -int(size["width"] * 0.2), -60).click_and_hold() \
        .move_by_offset(int(size["width"] * 0.3), 0).release().perform()
    settle(browser)
    check(labels() != before, f"{name}: dragging does not zoom")
    ActionChains(browser).double_click(timeline).perform()
    browser.execute_async_script("setTimeout(arguments[0], 300);")


def check_speed(browser, name):
    """Work for one movement of the mouse, in the page's own time; a frame is 16 ms, twice that is hardly felt, and the
    machine may be busy: ten times that is a page that lags."""
    spent = browser.execute_async_script("""
        const done = arguments[0], element = document.getElementById('timeline'), box = element.getBoundingClientRect();
        const times = [];
        let i = 0;
        (function next() {
            if (i++ === 20) { done(times.sort((a, b) => a - b)[10]); return; }
            const start = performance.now();
            element.dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: box.left + 80 + 30 * i, clientY: box.top + 90}));
            requestAnimationFrame(() => { setTimeout(() => { times.push(performance.now() - start); next(); }); });
        })();""")
    print(f"{name}: a movement of the mouse takes {spent:.0f} ms")
    check(spent < 320, f"{name}: a movement of the mouse takes {spent:.0f} ms")


def check_cards(browser, name):
    """Whatever the names, what a card says stays inside it."""
    outside = browser.execute_script("""
        return [...document.querySelectorAll('.cards > div')].filter((card) => {
            const box = card.getBoundingClientRect();
            return card.scrollWidth > card.clientWidth || [...card.querySelectorAll('*')].some((part) => part.getBoundingClientRect().right > box.right + 0.5);
        }).map((card) => card.textContent);""")
    check(outside == [], f"{name}: cards overflow: {outside}")


def check_hostile(browser):
    check(browser.execute_script("return document.querySelectorAll('img:not([src^=data])').length") == 0, "hostile: an image was made")
    check(not browser.execute_script("return window.hostile === true"), "hostile: a name was run")
    data = json.loads(browser.execute_script("return document.getElementById('data').textContent"))
    check(any("<script>" in op[0] for op in data["ops"]), "hostile: the names are not there")
    timeline = browser.find_element(By.ID, "timeline")
    for part in [i / 20 for i in range(2, 20)]:
        hover(browser, timeline, part, 0.4)
    check(browser.execute_script("return document.querySelectorAll('img:not([src^=data])').length") == 0, "hostile: a tip made an image")


def difference(a, b):
    """0 for the same picture, 1 for black against white. Blurred, so that a pixel's shift or another font's edge is
    little, and a panel that is missing, empty or in other colours is much."""
    if a.size != b.size:
        b = b.resize(a.size)
    blurred = [picture.convert("RGB").filter(ImageFilter.GaussianBlur(6)) for picture in (a, b)]
    return max(ImageStat.Stat(ImageChops.difference(*blurred)).rms) / 255


def compare(browser, pictures, update, dark):
    for panel in ("memory", "again", "network"):
        element = browser.find_element(By.ID, panel)
        scroll_to(browser, element)
        picture = Image.open(io.BytesIO(element.screenshot_as_png)).convert("RGB")
        path = os.path.join(pictures, f"report_{panel}{'_dark' if dark else ''}.png")
        colors = len(picture.quantize(64).getcolors())
        check(colors > 8, f"{panel}: hardly anything is drawn")
        if update:
            picture.quantize(48).save(path, optimize=True)
            continue
        with Image.open(path) as expected:
            off = difference(expected, picture)
        print(f"{panel}{' (dark)' if dark else ''}: differs by {off:.3f}")
        if off > 0.06:
            picture.save(f"{panel}.png")
            check(False, f"{panel}: looks different by {off:.3f}; see {os.path.abspath(panel)}.png")


def main():
    folder, pictures = sys.argv[1:3]
    update = "--update" in sys.argv
    browser = open_browser()
    try:
        load(browser, f"{folder}/small.html")
        compare(browser, pictures, update, False)
        data = check_hover(browser, "small")
        check_lists(browser, "small", data)
        check_graph(browser, "small", data)
        check_zoom(browser, "small")
        check_quiet(browser, "small")
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        load(browser, f"{folder}/small.html")
        compare(browser, pictures, update, True)
        load(browser, f"{folder}/large.html")
        data = check_hover(browser, "large")
        check_lists(browser, "large", data)
        check_graph(browser, "large", data)
        check_speed(browser, "large")
        check_quiet(browser, "large")
        load(browser, f"{folder}/hostile.html")
        check_hostile(browser)
        check_cards(browser, "hostile")
        check_quiet(browser, "hostile")
        # A telephone: nothing sticks out sideways.
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True})
        load(browser, f"{folder}/small.html")
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        check(wide <= 390, f"on a width of 390 the page is {wide} wide")
        check_cards(browser, "on a telephone")
    finally:
        browser.quit()
    return 1 if problems else 0


sys.exit(main())

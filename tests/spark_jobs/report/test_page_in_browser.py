"""The page in a headless Chromium: light and dark, a desk and a phone."""

import asyncio
import itertools

import aiohttp
import pytest

from spark_jobs.report.page import page
from tests.emulator.platforms.page.browser import Tab, started
from tests.spark_jobs.report.samples import bad_month, facts, month

pytestmark = pytest.mark.browser
IS_READY = "document.readyState === 'complete' && document.querySelector('h1')"
SIZES = {"desk": (1280, 800), "phone": (390, 844)}
PAPER = {"light": "rgb(246, 247, 249)", "dark": "rgb(17, 22, 29)"}
HOSTILE = "</title><script>document.title='owned'</script><img src=//example.com/x>" + "W" * 80 + "\u202e"
FACTS = {
    "bad": facts(**bad_month()),
    "hostile": facts(**month(names=lambda name: name + HOSTILE)),
    "empty": facts(),
}
# The contrast of a text with the first background that is not transparent around it, by WCAG's formula.
CONTRASTS = """(() => {
  const light = rgb => rgb.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const paper = node => { const c = rgb(getComputedStyle(node).backgroundColor);
    return c.length > 3 && c[3] === 0 ? paper(node.parentElement) : c.slice(0, 3); };
  const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  return [...document.querySelectorAll("h1, h2, p, a, li, dt, dd, code, strong, figcaption, summary, svg text")]
    .map(node => ({node, style: getComputedStyle(node)}))
    .map(({node, style}) => [ratio(light(rgb(node.matches("svg text") ? style.fill : style.color).slice(0, 3)),
      light(paper(node.closest("svg") ? node.closest("svg").parentElement : node))), node.className, node.textContent])
    .filter(([found]) => found < 4.5).map(([found, name, text]) => `${found} ${name} ${text.slice(0, 40)}`);
})()"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with started(tmp_path_factory.mktemp("chromium")) as protocol:
        yield protocol


@pytest.fixture
def look(chromium, tmp_path):
    """Run ``scenario(tab)`` on a page, in a scheme and a size; fails where the browser complains or asks a network."""

    def look(name, scheme, size, scenario):
        path = tmp_path / "page.html"
        path.write_text(page(FACTS[name], "/srv/mart"))

        async def main():
            async with aiohttp.ClientSession() as session:
                width, height = SIZES[size]
                tab = await Tab.open(
                    session, chromium, path.as_uri(), width=width, height=height, scheme=scheme, is_ready=IS_READY
                )
                try:
                    await scenario(tab)
                    assert tab.problems == []
                    assert [url for url in tab.requests if url not in (path.as_uri(), "data:,")] == []
                finally:
                    await tab.close()

        asyncio.run(main())

    return look


@pytest.mark.parametrize(("name", "scheme", "size"), list(itertools.product(FACTS, PAPER, SIZES)))
def test_a_page_fits_its_window_in_both_schemes_and_its_first_screenful_has_the_verdict(look, name, scheme, size):
    async def scenario(tab):
        await tab.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        width, height = SIZES[size]
        assert await tab.run("document.documentElement.scrollWidth") == width
        assert await tab.run("getComputedStyle(document.body).backgroundColor") == PAPER[scheme]
        assert await tab.run("document.querySelector('h1').getBoundingClientRect().bottom") < height / 3
        if name == "bad":
            first = await tab.run("document.querySelector('#concerns li').getBoundingClientRect().bottom")
            assert first < height / 2
        assert await tab.run("document.title.startsWith('Postroom: ')")
        assert await tab.run(CONTRASTS) == []

    look(name, scheme, size, scenario)


@pytest.mark.parametrize("size", SIZES)
def test_no_text_of_a_plot_is_cut_off_or_too_small(look, size):
    async def scenario(tab):
        cut = await tab.run(
            "[...document.querySelectorAll('.chart text')].map(each => each.getBoundingClientRect())"
            ".filter(box => box.left < 0 || box.right > innerWidth || box.height < 10).length"
        )
        assert cut == 0
        assert await tab.run("document.querySelectorAll('.plot rect').length") > 100

    look("bad", "light", size, scenario)


def test_a_page_is_printed_on_white_paper_also_in_the_dark(look):
    async def scenario(tab):
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        await tab.send("Emulation.setEmulatedMedia", media="print", features=dark)
        assert await tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert await tab.run("getComputedStyle(document.documentElement).colorScheme") == "light"
        assert await tab.run("document.querySelector('nav').offsetHeight") == 0
        assert await tab.run(CONTRASTS) == []

    look("bad", "dark", "desk", scenario)

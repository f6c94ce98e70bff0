"""A month's bill: by the price list, by what was measured, and by what a Postroom here has counted."""

import pytest

from infra.costs import program
from infra.costs.bill import Amounts, Price, PriceList
from shared.db.replica.replica_report import BucketSurvey, LevelFacts, ReplicaReport
from shared.db.replica.request_counts import RequestCounts
from tests.infra.processes import ROOT
from tests.support import NOW

OPERATIONS = (ROOT / "docs/operations.md").read_text()
ONE = Amounts("one", writes=2_500_000, reads=1_000_000, stored_gb=12.5, machines=2, out_gb=150)
HOUR = 3_600_000
METRICS = """\
# HELP litestream_replica_operation_total The number of replica operations performed
litestream_replica_operation_total{operation="DELETE",replica_type="s3"} 7
litestream_replica_operation_total{operation="PUT",replica_type="s3"} 600
process_start_time_seconds 1000
"""


def report(counting_since):
    survey = BucketSurvey(NOW, [LevelFacts(0, 1000, 1, "", NOW)], 1200, 3_000_000_000, 0)
    return ReplicaReport(
        at=NOW, url="", prefix="", epoch=None, has_full_copy=True, holder="", renewed_at=NOW, until=NOW,
        behind_since=None, verify_every_ms=0, requests=RequestCounts(puts=480, gets=20, lists=2, deletes=99),
        counting_since=counting_since, survey=survey, sizes={},
    )  # fmt: skip


def price(of, dollars, **more):
    return Price(of=of, what="", dollars=dollars, as_of="", source="", **more)


@pytest.mark.parametrize(
    ("line", "dollars"),
    [
        (price("writes", 5.0, per=1_000_000), 12.5),
        (price("writes", 4.5, per=1_000_000, free=1_000_000), 6.75),
        (price("writes", 4.5, per=1_000_000, free=1_000_000, in_whole_units=True), 9.0),
        (price("reads", 0.36, per=1_000_000, free=10_000_000), 0),
        (price("stored_gb", 0.02, free=2.5), 0.2),
        (price("out_gb", 0.09, free=100), 4.5),
        (price("machines", 12.0), 24.0),
        (price("once", 16.43), 16.43),
    ],
)
def test_a_price_is_for_what_is_beyond_the_free_part(line, dollars):
    assert line.cost(ONE) == pytest.approx(dollars)


def test_a_bill_is_the_sum_of_its_lines():
    place = PriceList("here", [price("once", 1.0), price("machines", 2.0)])
    assert place.total(ONE) == 5.0


def test_each_price_of_the_list_has_a_date_and_a_source_and_each_provider_a_whole_bill():
    places = program.providers(program.HERE / "prices.toml")
    assert len(places) == 3
    for place in places:
        assert {each.of for each in place.prices} >= {"writes", "reads", "stored_gb", "machines"}
        assert all(each.source.startswith("https://") and each.as_of for each in place.prices)
        assert place.total(ONE) > 0


def test_the_amounts_are_those_of_the_docs(capsys):
    """docs/replication.md, *What it costs*, has what the bucket alone costs at S3's prices."""
    aws = program.providers(program.HERE / "prices.toml")[0]
    requests = {
        each.what: sum(cost for price, cost in aws.lines(each) if price.of in ("writes", "reads", "stored_gb"))
        for each in program.measured(program.HERE / "measured.toml")
    }
    assert requests["nobody writes"] == pytest.approx(3.5, abs=0.1)
    assert requests["200 messages a second"] == pytest.approx(144, abs=0.5)
    assert requests["200 messages a second, interval 1s"] == pytest.approx(23, abs=0.1)
    assert program.main([]) == 0
    assert f"$ python -m infra.costs\n{capsys.readouterr().out}```" in OPERATIONS


def test_a_month_of_the_postroom_here_is_at_the_rate_of_what_it_counted():
    """The supervisor for two hours, Litestream for one: it has no count of its listings, which depend on its files."""
    found = program.here(report(NOW - 2 * HOUR), METRICS, now_ms=NOW, now_s=1000 + 3600)
    assert found.writes == pytest.approx(720 * (241 + 600 + 430 + 190))
    assert found.reads == pytest.approx(720 * (10 + 60))
    assert (found.stored_gb, found.machines) == (3.0, 1)
    assert program.here(report(NOW), METRICS, now_ms=NOW, now_s=1000).writes > 0  # both have just started


def test_a_price_list_of_ones_own_takes_the_place_of_ours(tmp_path, capsys):
    own = tmp_path / "mine.toml"
    own.write_text(
        '[[providers]]\nname = "cellar"\n[[providers.prices]]\nof = "once"\nwhat = "power"\ndollars = 4\n'
        'as_of = "2026-11"\nsource = "https://example.com/"\nchecked = false\n'
    )
    assert program.main(["--prices", str(own), "--lines"]) == 0
    printed = capsys.readouterr().out
    assert "cellar" in printed
    assert "     4.00  power  (2026-11, NOT CHECKED at the provider: https://example.com/)" in printed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "{} can't be read: No such file or directory\n"),
        ("[[providers]", "{}, providers: Expected ']]' at the end of an array declaration (at line 1, column 12)\n"),
        ("", "{}, providers: Expected `array`, got `null`\n"),
        (
            "[[providers]]\nname = ''\nprices = [{of = 'watts', what = '', dollars = 1, as_of = '', source = ''}]\n",
            "{}, providers: Invalid enum value 'watts' - at `$[0].prices[0].of`\n",
        ),
    ],
    ids=["missing", "no TOML", "empty", "another word"],
)
def test_a_price_list_that_is_wrong_is_named_with_the_place(tmp_path, capsys, text, why):
    own = tmp_path / "mine.toml"
    if text is not None:
        own.write_text(text)
    assert program.main(["--prices", str(own)]) == 66
    assert capsys.readouterr().err == f"costs: {why.format(own)}"


def test_without_a_report_of_replication_it_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("POSTROOM_DB", str(tmp_path / "p.db"))
    assert program.main(["--here"]) == 66
    assert capsys.readouterr().err == (
        f"costs: no report of replication is beside {tmp_path / 'p.db'}: start infra.replicate, or set POSTROOM_DB\n"
    )


def test_a_litestream_that_does_not_answer_is_named(tmp_path, monkeypatch, capsys):
    report(NOW).write(tmp_path / "p.db")
    monkeypatch.setenv("POSTROOM_DB", str(tmp_path / "p.db"))
    monkeypatch.setenv("POSTROOM_LITESTREAM_ADDR", "127.0.0.1:x")
    assert program.main(["--here"]) == 66
    assert capsys.readouterr().err.startswith(
        "costs: Litestream does not answer at POSTROOM_LITESTREAM_ADDR=127.0.0.1:x ("
    )

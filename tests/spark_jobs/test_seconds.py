import re

from spark_jobs import seconds


def test_every_second_of_a_job_belongs_to_one_part():
    with seconds.counted_job() as spent:
        with seconds.counted("java"), seconds.counted("restore"):
            pass
        with seconds.counted("restore"):
            pass
    assert {"java", "restore", "query", "total"} <= set(spent)
    assert spent["total"] == sum(took for part, took in spent.items() if part != "total")
    assert min(spent.values()) >= 0


def test_a_part_inside_another_is_not_counted_twice(monkeypatch):
    now = iter([0.0, 10.0, 11.0, 14.0, 20.0, 50.0])
    monkeypatch.setattr(seconds.time, "monotonic", lambda: next(now, 50.0))
    with seconds.counted_job() as spent, seconds.counted("session"), seconds.counted("java"):
        pass
    assert (spent["java"], spent["session"], spent["query"]) == (3.0, 7.0, 40.0)


def test_only_the_first_job_of_a_process_counts_the_start_of_python():
    with seconds.counted_job():
        pass
    with seconds.counted_job() as second:
        pass
    assert "python" not in second


def test_the_seconds_are_fields_of_a_log_line():
    assert seconds.as_fields({"java": 2.14, "total": 3.0}) == "java_s=2.1 total_s=3.0"
    with seconds.counted_job() as spent:
        pass
    assert re.fullmatch(r"(python_s=[\d.]+ )?query_s=[\d.]+ total_s=[\d.]+", seconds.as_fields(spent))

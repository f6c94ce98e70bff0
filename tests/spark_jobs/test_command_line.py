import logging

from shared.core.errors import ConfigInvalid
from spark_jobs.command_line import run_command


def test_a_job_prints_its_result_and_logs_where_its_seconds_went(capsys, caplog):
    caplog.set_level(logging.INFO, "postroom")
    assert run_command("people", lambda: "a table\n") == 0
    assert capsys.readouterr().out == "a table\n"
    (line,) = [record.message for record in caplog.records if record.message.startswith("job.done")]
    assert line.startswith("job.done job=people ")
    assert "query_s=0.0 total_s=" in line


def test_a_job_that_is_refused_says_why_and_logs_no_seconds(capsys, caplog):
    def refuse():
        raise ConfigInvalid("name another folder")

    assert run_command("people", refuse) == 64
    assert capsys.readouterr().err == "people: name another folder\n"
    assert "job.done" not in caplog.text


def test_what_a_terminal_would_obey_appears_as_escapes(capsys):
    assert run_command("costs", lambda: "day  model\n1    gpt\x1b[2J\u202e\r\n") == 0
    assert capsys.readouterr().out == "day  model\n1    gpt\\x1b[2J\\u202e\\r\n"

    def refuse():
        raise ConfigInvalid("no such model: gpt\x1b[2J")

    assert run_command("costs", refuse) == 64
    assert capsys.readouterr().err == "costs: no such model: gpt\\x1b[2J\n"

import subprocess
import sys
import time

import pytest

from shared.core.errors import ConfigInvalid
from shared.core.text import patterns

MATCHES = {
    "anything": (".", "x", True),
    "nothing at all": (".", "", False),
    "in the middle": ("deploy", "please deploy this", True),
    "elsewhere": ("deploy", "please stop", False),
    "case counts": ("Deploy", "deploy", False),
    "case is set aside": ("(?i)deploy", "DEPLOY", True),
    "at the beginning only": ("^ops:", "to ops: hello", False),
    "letters of any script": (r"(?i)\p{L}+ÜR", "für", True),
    "one character is one, whatever its bytes": ("^.$", "🙂", True),
    "half of a pair in the text": ("a", "\ud83da", True),
    "a dot is no newline": ("a.b", "a\nb", False),
    "the end of the whole text": ("b$", "b\nc", False),
}


@pytest.mark.parametrize(("pattern", "text", "expected"), MATCHES.values(), ids=MATCHES)
def test_a_pattern_matches(pattern, text, expected):
    patterns.check(pattern)
    assert patterns.matches(pattern, text) is expected


REFUSED = {
    "empty": ("", "the pattern is empty"),
    "an open bracket": ("a[b", "missing ]: [b"),
    "an open group": ("(a", "missing ): (a"),
    "nothing to repeat": ("*a", "no argument for repetition operator: *"),
    "look-ahead": ("a(?=b)", "(?= (look-around and back references are not available)"),
    "look-behind": ("(?<=a)b", "(?<"),
    "a back reference": (r"(a)\1", "back references"),
    "repetition without measure": ("a{1001}", "invalid repetition size"),
    "repetition of repetition": ("((a{100}){100}){100}", "invalid repetition size"),
    "a program too large": (r"(\pL{100}\pN{100}){5}", "too large"),
    "half of a character": ("\ud83d", "half of a surrogate pair"),
    "too long": ("a" * 501, "has 501 characters; at most 500"),
}


@pytest.mark.parametrize(("pattern", "sentence"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_pattern_is_refused_with_the_reason(pattern, sentence):
    with pytest.raises(ConfigInvalid) as caught:
        patterns.check(pattern)
    assert sentence in str(caught.value)


def test_an_invalid_stored_pattern_raises_and_does_not_match():
    with pytest.raises(ValueError, match="missing"):
        patterns.matches("(", "(")


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*x", "(a?){200}a{200}", "(x+x+)+y"])
def test_no_pattern_takes_long(pattern):
    """A backtracking matcher would need an astronomical time for each of them."""
    text = "a" * 5000 + "x" * 4999 + "!"
    patterns.matches(pattern, "")
    began = time.process_time()
    patterns.matches(pattern, text)
    assert time.process_time() - began < 1


def test_only_the_beginning_of_a_long_text_is_searched():
    assert patterns.matches("x$", "a" * (patterns.SEARCHED_CHARACTERS - 1) + "x" + "y")
    assert not patterns.matches("y", "a" * patterns.SEARCHED_CHARACTERS + "y")


def test_a_refused_pattern_writes_nothing_on_stderr_and_re2_is_loaded_only_for_a_pattern():
    """It would contain the pattern, which may be private."""
    code = """
import sys
from shared.core.text import patterns
assert "re2" not in sys.modules
try:
    patterns.check("(secret")
except Exception:
    print("refused", "re2" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("refused True\n", "")

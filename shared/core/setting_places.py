"""Where variables of the environment come from, so that an error about one names the file and the line.

Whoever makes an environment from files says so in one more variable.
"""

import json
import os
from collections.abc import Mapping

_VARIABLE = "POSTROOM_SETTING_PLACES"


def variable(places: Mapping[str, str]) -> dict[str, str]:
    """The variable that tells the *places*, such as ``.env:3``, by the name of each variable; none for no places."""
    return {_VARIABLE: json.dumps({name.upper(): place for name, place in places.items()})} if places else {}


def find(name: str) -> str | None:
    """The place that this process was told of the variable."""
    try:
        found = json.loads(os.environ.get(_VARIABLE, "{}")).get(name)
    except (ValueError, AttributeError):
        return None
    return None if found is None else str(found)

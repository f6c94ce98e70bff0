"""The ways to hold a program in that this machine has; a supervisor works everywhere."""

from shared.agents.programs import containment
from shared.agents.programs.containment import Containment

SUPERVISOR = Containment("supervisor", "as on a host without namespaces")
CONTAINMENTS = {each.kind: each for each in (containment.available(), containment.available("off"), SUPERVISOR)}

"""The group of the commands."""

from emulator.cli.commands.frame import group
from emulator.cli.commands.replica import drill, status

app = group("The replica in the bucket.")
app.command("status")(status.show_status)
app.command("drill")(drill.drill)

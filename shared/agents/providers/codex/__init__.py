"""The provider ``codex``: ``provider`` runs the program, ``launch`` says how it is started, ``dialogue`` speaks with
its app-server, ``exec_lines`` reads ``codex exec``, and ``failures`` says what its errors mean."""

"""The provider ``opencode``: ``provider`` runs the program, ``launch`` says how it is started, ``lines`` reads what it
writes, and ``failures`` says what its errors mean."""
